import { connect } from "node:net";

/** An error reply of a redis server; `code` is for instance NOAUTH, WRONGPASS or LOADING. */
export class RedisRefusal extends Error {
  readonly code: string;
  constructor(line: string) {
    super("redis refused a command"); // the server's own message may quote an argument
    this.code = /^[A-Z]+/.exec(line)?.[0] ?? "ERR";
  }
}

/**
 * Sends commands, each with a reply of one line, to a redis server of this machine. Throws RedisRefusal for the first
 * that is refused, and an Error when the replies do not arrive within `timeoutMs`.
 */
export function sendCommands(port: number, commands: string[][], timeoutMs = 2_000): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1" });
    let text = "";
    const end = (error?: Error) => {
      socket.destroy();
      if (error) reject(error);
      else resolve();
    };
    socket.setTimeout(timeoutMs, () => end(new Error("the redis server does not answer")));
    socket.on("error", end).on("close", () => end(new Error("the redis server closed the connection")));
    socket.on("connect", () => socket.write(commands.map(encode).join("")));
    socket.on("data", (part) => {
      text += part.toString("latin1");
      const lines = text.split("\r\n").slice(0, -1);
      const refused = lines.find((line) => line.startsWith("-"));
      if (refused) end(new RedisRefusal(refused.slice(1)));
      else if (lines.length >= commands.length) end();
    });
  });
}

/** Returns a command as servers read it. */
export function encode(parts: string[]): string {
  return `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join("")}`;
}
