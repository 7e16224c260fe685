import { once } from "node:events";
import http from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";

/**
 * Starts a proxy on loopback that leads all names below a domain to one address, and refuses others: for processes that
 * cannot resolve these names. Returns its URL.
 */
export async function startForwardProxy(domain: string, address: string) {
  const sockets = new Set<Socket>();
  const server = http.createServer((_request, response) => response.writeHead(501).end());
  server.on("connect", (request, socket: Socket) => {
    const { hostname, port } = new URL(`tcp://${request.url}`);
    if (!hostname.endsWith(`.${domain}`)) return socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
    const through = connect(Number(port), address, () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      socket.pipe(through).pipe(socket);
    });
    for (const [one, other] of [
      [socket, through],
      [through, socket],
    ] as const) {
      sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
