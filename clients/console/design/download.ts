/** Saves a text as a file. */
export function download(name: string, text: string, type = "text/plain"): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  saveFrom(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Saves what a URL leads to; without a name, under that which its answer has. */
export function saveFrom(url: string, name = ""): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.rel = "noreferrer";
  link.click();
}
