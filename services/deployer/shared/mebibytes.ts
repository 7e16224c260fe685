/** Returns a size in whole mebibytes, rounded down, as sentences show it. */
export function toMebibytes(bytes: number): string {
  return `${Math.floor(bytes / 1024 ** 2)} MiB`;
}
