// A process file for pm2: pm2 start ecosystem.config.js
// Exit 3 is a halt and 0 a completion: only the operator goes on from there.
module.exports = {
  apps: [{
    name: 'supervisor',
    script: 'otpy-agents',
    args: 'control start --sandbox-root sandbox',
    interpreter: 'none',
    instances: 1,
    exec_mode: 'fork',
    out_file: 'logs/supervisor-out.log',
    error_file: 'logs/supervisor-error.log',
    log_date_format: 'YYYY-MM-DD HH:mm:ss Z',
    merge_logs: true,
    autorestart: true,
    stop_exit_codes: [0, 2, 3],
    max_restarts: 10,
    min_uptime: '10s',
  }],
};
