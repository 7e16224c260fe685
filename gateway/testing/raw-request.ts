import { connect } from "node:net";

/** Writes to a socket, then one byte after the other every 100 ms, and returns all that comes until it is closed. */
export function rawRequest(port: number, head: string, trickle = ""): Promise<string> {
  return new Promise((resolve) => {
    let got = "";
    const rest = [...trickle];
    let trickling: NodeJS.Timeout | undefined;
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(head);
      trickling = setInterval(() => rest.length > 0 && socket.write(rest.shift()!), 100);
    });
    socket.on("data", (chunk) => {
      got += chunk;
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      clearInterval(trickling);
      resolve(got);
    });
  });
}
