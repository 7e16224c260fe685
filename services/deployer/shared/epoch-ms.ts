/** Returns the SQL of a timestamp's milliseconds since 1970, as a float8. */
export function epochMs(timestamp: string): string {
  return `(extract(epoch from ${timestamp}) * 1000)::float8`;
}
