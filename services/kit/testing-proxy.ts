import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** What becomes of connections that hung: they go on, they break, or those begun meanwhile stay silent. */
export type Outcome = "kept" | "lost" | "silent";

export type TcpProxy = Awaited<ReturnType<typeof openProxy>>;

/** A way to a TCP server that can be shut (connections end, none is let in) or can hang (nothing moves). */
export async function openProxy(server: URL) {
  const sockets = new Map<Socket, { late: boolean }>();
  let hanging = false;
  const pass = (from: Socket, to: Socket) => {
    sockets.set(from, { late: hanging });
    from.on("data", (part) => to.write(part));
    from
      .on("error", () => {})
      .on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    if (hanging) from.pause();
  };
  const listener = createServer((near) => {
    const far = connect(Number(server.port), server.hostname);
    pass(near, far);
    pass(far, near);
  });
  const listen = (port: number) => once(listener.listen(port, "127.0.0.1"), "listening");
  await listen(0);
  const { port } = listener.address() as { port: number };
  const endAll = () => {
    for (const socket of sockets.keys()) socket.destroy();
  };
  return {
    port,
    /** The server's URL, or another one at the same address, through the proxy. */
    of(url: string): string {
      const through = new URL(url);
      through.host = `127.0.0.1:${port}`;
      return through.href;
    },
    /** Ends all connections; new ones are let in. */
    cut: endAll,
    shut() {
      listener.close();
      endAll();
    },
    open: () => listen(port),
    hang(outcome: Outcome) {
      if (outcome === "silent") endAll();
      hanging = true;
      for (const socket of sockets.keys()) socket.pause();
    },
    goOn(outcome: Outcome) {
      hanging = false;
      if (outcome === "lost") endAll();
      for (const [socket, { late }] of sockets) if (!(late && outcome === "silent")) socket.resume();
    },
  };
}
