/** The address of an app, which opens beside the console. */
export function Address({ url }: { url: string }) {
  return (
    <a href={url} target="_blank" rel="noreferrer">
      {url.replace(/^https?:\/\//, "")}
    </a>
  );
}
