import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import type { Tunnel } from "../../../typescript/src/generated/types.ts";
import type { ServiceAddress } from "../../../typescript/src/path.ts";
import type { Context } from "../../context.ts";
import { refused } from "../../failure.ts";

export const LOOPBACK = "127.0.0.1";
/** Connections can begin at the path of a tunnel for five minutes: another one is requested in time. */
const PATH_MS = 4 * 60_000;
/** The most that waits to be sent. */
const MOST_WAITING = 1024 * 1024;
const LOOK_AGAIN_MS = 5;
const NORMAL = 1000;

/** `login`: how programs that connect to the port log in. */
export type OpenPort = {
  port: number;
  login: Pick<Tunnel, "user" | "password" | "database">;
  close: () => void;
};

/**
 * Opens a port of this machine, each of whose connections leads through a tunnel to an addon. Throws what refuses the first
 * tunnel, and where the port cannot be used.
 */
export async function openPort(ctx: Context, at: ServiceAddress, wanted: number): Promise<OpenPort> {
  if (!globalThis.WebSocket)
    throw refused(`Node.js ${process.versions.node} has no WebSocket.`, "install Node.js 22 or newer");
  const tunnels = await createTunnels(ctx, at);
  const sockets = new Set<Socket>();
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    tunnels.open().then(
      (tunnel) => join(socket, tunnel),
      (error: Error) => {
        ctx.io.note(`  ${error.message}`);
        socket.destroy();
      },
    );
  });
  server.listen(wanted, LOOPBACK);
  await once(server, "listening").catch((error: Error) => {
    const another = `berth addons connect ${at.service} --port 0`;
    throw refused(`Port ${wanted} cannot be used: ${error.message}.`, another);
  });
  return {
    port: (server.address() as AddressInfo).port,
    login: tunnels.login,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Requests a tunnel, and another one with its password whenever it is too old for the next connection. */
async function createTunnels(ctx: Context, at: ServiceAddress) {
  const [{ origin }, berth] = [await ctx.session(), await ctx.berth()];
  const request = async (password?: string) => ({
    requestedAt: performance.now(),
    tunnel: await berth.services.openTunnel(at, { password }, { signal: ctx.signal }),
  });
  const first = await request();
  const { user, password, database } = first.tunnel;
  let latest = first;
  return {
    login: { user, password, database },
    /** Throws a sentence. */
    async open(): Promise<WebSocket> {
      if (performance.now() - latest.requestedAt > PATH_MS) latest = await request(password);
      const tunnel = new WebSocket(new URL(latest.tunnel.path, origin.replace(/^http/, "ws")));
      tunnel.binaryType = "arraybuffer";
      await new Promise<void>((resolve, reject) => {
        const failed = `${at.service} cannot be reached through ${origin}: berth status, or try again.`;
        tunnel.addEventListener("open", () => resolve());
        tunnel.addEventListener("error", () => reject(new Error(failed)));
      });
      return tunnel;
    },
  };
}

/** Passes on what each side sends until one has ended. */
function join(socket: Socket, tunnel: WebSocket): void {
  if (socket.destroyed) {
    tunnel.close(NORMAL);
    return;
  }
  const sendOn = () => {
    if (tunnel.bufferedAmount > MOST_WAITING) setTimeout(sendOn, LOOK_AGAIN_MS);
    else socket.resume();
  };
  socket.on("data", (chunk) => {
    tunnel.send(chunk);
    if (tunnel.bufferedAmount <= MOST_WAITING) return;
    socket.pause();
    sendOn();
  });
  socket.on("end", () => tunnel.close(NORMAL));
  socket.on("close", () => tunnel.close(NORMAL));
  tunnel.addEventListener("message", ({ data }) => socket.write(Buffer.from(data as ArrayBuffer)));
  tunnel.addEventListener("error", () => socket.destroy());
  tunnel.addEventListener("close", () => socket.end());
  socket.resume();
}
