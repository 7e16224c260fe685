const KEY = "berth-account";

/** The account that was open last in this browser: a convenience, so a browser that stores nothing is no error. */
export function lastAccount(): string | undefined {
  try {
    return localStorage.getItem(KEY) ?? undefined;
  } catch {
    return undefined;
  }
}

export function keepAccount(id: string): void {
  try {
    localStorage.setItem(KEY, id);
  } catch {}
}
