/** A browser: it keeps cookies, and shows where it is sent. */
export function browser() {
  const cookies = new Map<string, string>();
  return async (url: string) => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { redirect: "manual", headers: cookie ? { cookie } : {} });
    for (const set of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set)!;
      if (value) cookies.set(name!, value);
      else cookies.delete(name!);
    }
    const location = response.headers.get("location") ?? "about:blank";
    return { status: response.status, location, text: await response.text() };
  };
}
