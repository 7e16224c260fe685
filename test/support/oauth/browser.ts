export type Browser = ReturnType<typeof browser>;

/** A browser that shows no pages: it keeps cookies for their paths, and says where it is sent. */
export function browser() {
  const jar = new Map<string, { value: string; path: string }>();
  const go = async (url: string, headers: Record<string, string> = {}) => {
    const { pathname } = new URL(url);
    const cookie = [...jar]
      .filter(([, { path }]) => pathname === path || pathname.startsWith(path.replace(/\/?$/, "/")))
      .map(([key, { value }]) => `${key.split(" ")[0]}=${value}`)
      .join("; ");
    const sent = { ...(cookie && { cookie }), ...headers };
    const answer = await fetch(url, { redirect: "manual", headers: sent });
    const setCookies = answer.headers.getSetCookie();
    for (const set of setCookies) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set)!;
      const path = /; path=([^;]*)/i.exec(set)?.[1] ?? "/";
      if (value) jar.set(`${name} ${path}`, { value, path });
      else jar.delete(`${name} ${path}`);
    }
    return {
      status: answer.status,
      location: answer.headers.get("location"),
      setCookies,
      text: await answer.text(),
    };
  };
  /** The cookies of this name, with its signature. */
  const cookieOf = (name: string, path: string) =>
    [name, `${name}.sig`].map((each) => `${each}=${jar.get(`${each} ${path}`)?.value}`).join("; ");
  return Object.assign(go, { cookieOf });
}
