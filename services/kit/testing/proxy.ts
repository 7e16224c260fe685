import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** What becomes of connections that hung: they go on, they break, or those begun meanwhile stay silent. */
export type Outcome = "kept" | "lost" | "silent";

export type TcpProxy = Awaited<ReturnType<typeof openProxy>>;

/** A way to a TCP server that can be shut (connections end, none is let in) or can hang (nothing moves), at this address. */
export async function openProxy(server: URL, host = "127.0.0.1") {
  const sockets = new Map<Socket, { late: boolean }>();
  let hanging = false;
  let losing: { mark: string; lost: (answer: string) => void } | undefined;
  const pass = (from: Socket, to: Socket, keep: (part: Buffer) => boolean = () => false) => {
    sockets.set(from, { late: hanging });
    from.on("data", (part) => keep(part) || to.write(part));
    from
      .on("error", () => {})
      .on("close", () => {
        sockets.delete(from);
        // What has been passed on arrives.
        to.destroySoon();
      });
    if (hanging) from.pause();
  };
  const listener = createServer((near) => {
    const far = connect(Number(server.port), server.hostname);
    let doomed: typeof losing;
    let answer = "";
    pass(near, far, (part) => {
      if (!doomed && losing && part.includes(losing.mark)) [doomed, losing] = [losing, undefined];
      return false;
    });
    pass(far, near, (part) => {
      if (!doomed) return false;
      answer += part.toString();
      if (!isWhole(answer)) return true;
      near.destroy();
      doomed.lost(answer);
      return true;
    });
  });
  const listen = (port: number) => once(listener.listen(port, host), "listening");
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
      through.host = `${host}:${port}`;
      return through.href;
    },
    /**
     * Ends the connection of the next HTTP request whose head holds `mark` once its answer is whole, and passes
     * nothing of it on. Gives what was lost.
     */
    loseAnswer: (mark: string) =>
      new Promise<string>((lost) => {
        losing = { mark, lost };
      }),
    /** Ends the connection that the server knows by this port of its peer. */
    cutFrom(port: number) {
      for (const socket of sockets.keys()) if (socket.localPort === port) socket.destroy();
    },
    /** Ends all connections; new ones are let in. */
    cut: endAll,
    /** Connections that there are fall silent for good, and neither side is told; new ones work. */
    silence() {
      for (const socket of sockets.keys()) socket.pause();
    },
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

function isWhole(answer: string): boolean {
  const [head = "", ...rest] = answer.split("\r\n\r\n");
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  if (length !== undefined) return Buffer.byteLength(rest.join("\r\n\r\n")) >= Number(length);
  return /^transfer-encoding: chunked$/im.test(head) && answer.endsWith("\r\n0\r\n\r\n");
}
