/** Moves the focus to the screen where what had it is gone: who uses a keyboard or hears the page would begin at its top. */
export function keepFocus(): void {
  if (document.activeElement === null || document.activeElement === document.body)
    document.getElementById("content")?.focus({ preventScroll: true });
}
