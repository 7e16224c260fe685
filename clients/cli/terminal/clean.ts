/** Colours and emphasis, which apps log; everything else that begins with ESC moves or rewrites what is on the screen. */
const ESC = "\u001b";
const PARAMETERS = /^\[[\d;]{0,40}m/;

/** Concealed text, which a reader would not see. */
const HIDES = /[[;]0?8[;m]/;

/** Whether a character can act on a terminal instead of being shown, or reorders what is shown. */
const acts = (code: number): boolean =>
  (code < 0x20 && code !== 0x09) ||
  (code >= 0x7f && code < 0xa0) ||
  (code >= 0x202a && code <= 0x202e) ||
  (code >= 0x2066 && code <= 0x2069);

/** Returns one line of text that others wrote, without what would act on a terminal; its colours may stay. */
export function clean(text: string, colors = false): string {
  const [first = "", ...pieces] = text.split(ESC);
  let result = visible(first);
  let colored = false;
  for (const piece of pieces) {
    const [color = ""] = PARAMETERS.exec(piece) ?? [];
    if (colors && color && !HIDES.test(color)) {
      result += ESC + color;
      colored = true;
    }
    result += visible(piece.slice(color.length));
  }
  return colored ? `${result}${ESC}[0m` : result;
}

function visible(text: string): string {
  let shown = "";
  for (const char of text) if (!acts(char.codePointAt(0)!)) shown += char;
  return shown;
}
