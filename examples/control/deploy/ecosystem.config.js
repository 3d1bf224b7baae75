// A process file for pm2: pm2 start ecosystem.config.js
// Exit 3 is a halt: only the operator goes on from there. For pm2 a program that was killed has
// ended with 0, so a completion, which is to be left alone, becomes a 3 as well.
// With the store of compose.yaml, add: --redis-host localhost --redis-port 6499
// --state-key supervisor:state --queue-name tasks --queue-db 2
const start = 'otpy-agents control start --sandbox-root sandbox';

module.exports = {
  apps: [{
    name: 'supervisor',
    script: 'sh',
    args: ['-c', `${start}; status=$?; [ $status -ne 0 ] || exit 3; exit $status`],
    interpreter: 'none',
    instances: 1,
    exec_mode: 'fork',
    out_file: 'logs/supervisor-out.log',
    error_file: 'logs/supervisor-error.log',
    log_date_format: 'YYYY-MM-DD HH:mm:ss Z',
    merge_logs: true,
    autorestart: true,
    stop_exit_codes: [2, 3],
    max_restarts: 10,
    min_uptime: '10s',
    kill_timeout: 60000,
  }],
};
