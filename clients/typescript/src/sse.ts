/** One frame of a stream of events (HTML, section 9.2): an event, an id alone, or a hint when to come back (ms). */
export type Frame = { event?: string; data: string; id?: string; retry?: number };

/** Yields the frames of a body. `heard` is called whenever bytes arrive. */
export async function* framesOf(
  body: ReadableStream<Uint8Array>,
  heard: () => void,
): AsyncGenerator<Frame, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let lines: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      rest += decoder.decode(value, { stream: true });
      const parts = rest.split(/\r\n|\n|\r(?!$)/);
      rest = parts.pop()!;
      for (const line of parts) {
        if (line !== "") {
          lines.push(line);
          continue;
        }
        const frame = frameOf(lines);
        lines = [];
        if (frame) yield frame;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function frameOf(lines: string[]): Frame | undefined {
  const frame: Frame = { data: "" };
  const data: string[] = [];
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") frame.event = value;
    else if (name === "data") data.push(value);
    else if (name === "id") frame.id = value;
    else if (name === "retry" && /^\d+$/.test(value)) frame.retry = Number(value);
  }
  frame.data = data.join("\n");
  const says = data.length > 0 || frame.id !== undefined || frame.retry !== undefined;
  return says ? frame : undefined;
}
