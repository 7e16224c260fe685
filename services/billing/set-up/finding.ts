/** What a check of the set-up found: all is well; something is wrong, and what to do; or what it cannot see. */
export type Finding = { state: "fine" | "wrong" | "unseen"; text: string; remedy?: string };

export const fine = (text: string): Finding => ({ state: "fine", text });
export const wrong = (text: string, remedy: string): Finding => ({ state: "wrong", text, remedy });
export const unseen = (text: string): Finding => ({ state: "unseen", text });
