import { texts } from "../texts.ts";
import { Alert } from "./form.tsx";

type MoreProps = {
  pages: {
    data: unknown;
    error: unknown;
    hasNextPage: boolean;
    isFetching: boolean;
    fetchNextPage: () => Promise<unknown>;
  };
  text?: string;
};

/** What stands below a list: how to get the next page, and why it is not there. */
export function More({ pages, text = texts.more }: MoreProps) {
  const { data, error, hasNextPage, isFetching, fetchNextPage } = pages;
  return (
    <>
      {hasNextPage && (
        <button type="button" aria-disabled={isFetching} onClick={() => isFetching || void fetchNextPage()}>
          {text}
        </button>
      )}
      {data !== undefined && <Alert error={error} />}
    </>
  );
}
