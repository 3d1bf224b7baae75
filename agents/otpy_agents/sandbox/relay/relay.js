// Inside a sandbox: hand 127.0.0.1:PORT on to the socket beside this file, once that is proved.
// As relay.py, for images with neither Python nor perl; most agents bring Node.js.
'use strict';
const fs = require('fs');
const net = require('net');

const [port, allowed, refused] = process.argv.slice(2).map(Number);
for (const name of ['SIGHUP', 'SIGINT', 'SIGTERM']) process.on(name, () => {});

const server = net.createServer({ allowHalfOpen: true }, (client) => {
  const proxy = net.connect({ path: 'proxy.sock', allowHalfOpen: true });
  for (const [one, other] of [[client, proxy], [proxy, client]]) {
    one.pipe(other);
    one.on('error', () => other.destroy());
  }
});
server.listen(port, '127.0.0.1', () => {
  prove().then(
    () => {
      fs.writeSync(1, 'go\n');
      fs.closeSync(1); // the shell waits for the end of it
    },
    (error) => fail(error.message),
  );
});
server.on('error', (error) => fail(`cannot listen: ${error.message}`));

function fail(reason) {
  fs.writeSync(2, `otpy: ${reason}\n`);
  process.exit(1);
}

async function prove() {
  const no = await ask(refused);
  if (no.status !== '403') throw Error(`a port that is not allowed answered ${no.status}`);
  if (await reaches(allowed)) throw Error('the host was reached without the proxy');
  const yes = await ask(allowed);
  if (yes.status !== '200') throw Error(`a port that is allowed answered ${yes.status}`);
  const answer = heard(yes.socket, '\n');
  yes.socket.write('proved\n');
  if ((await answer) !== 'go\n') throw Error('the host does not want to go on');
}

async function ask(target) {
  const socket = net.connect(port, '127.0.0.1');
  socket.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\n\r\n`);
  const head = await heard(socket, '\r\n\r\n');
  return { status: head.split(' ')[1] || 'nothing', socket };
}

function heard(socket, end) {
  return new Promise((resolve) => {
    let text = '';
    const take = (data) => {
      text += data;
      if (text.includes(end)) done();
    };
    const done = () => {
      socket.off('data', take);
      resolve(text);
    };
    socket.on('data', take).on('end', done).on('error', done);
  });
}

function reaches(target) {
  return new Promise((resolve) => {
    const socket = net.connect(target, '127.0.0.1');
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
  });
}
