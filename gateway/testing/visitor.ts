export type Sent = {
  fields?: Record<string, string>;
  headers?: Record<string, string>;
  at?: string | undefined;
};

/** Returns a browser without a screen: it keeps cookies and sends the form of the page that it saw last. */
export function createVisitor(origin: () => string) {
  const cookies = new Map<string, string>();
  let mark = "";
  let id = "";
  const go = async (method: "GET" | "POST", path: string, { fields, headers, at = origin() }: Sent = {}) => {
    const cookie = [...cookies].map((pair) => pair.join("=")).join("; ");
    const response = await fetch(at + path, {
      method,
      redirect: "manual",
      headers: { ...(cookie && { cookie }), ...headers },
      body: method === "POST" ? new URLSearchParams({ form_mark: mark, form_id: id, ...fields }) : null,
    });
    for (const set of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set)!;
      if (value) cookies.set(name!, value);
      else cookies.delete(name!);
    }
    const text = await response.text();
    mark = /name="form_mark" value="([^"]+)"/.exec(text)?.[1] ?? mark;
    id = /name="form_id" value="([^"]+)"/.exec(text)?.[1] ?? id;
    const { status } = response;
    return { status, text, headers: response.headers, location: response.headers.get("location") };
  };
  const signIn = async (user: { email: string; password: string }, more: Sent = {}) => {
    await go("GET", "/signin", { at: more.at });
    const fields = { email: user.email, password: user.password, ...more.fields };
    return go("POST", "/signin", { ...more, fields });
  };
  return { cookies, go, signIn, mark: () => mark };
}
