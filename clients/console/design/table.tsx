import type { ReactNode } from "react";

type TableProps = { caption: string; columns: readonly string[]; className?: string; children: ReactNode };

/** A table that may be wider than the window. It can be scrolled by keyboard also where nothing in it takes the focus. */
export function Table({ caption, columns, className, children }: TableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard.
    <section className="table" tabIndex={0} aria-label={caption}>
      <table className={className}>
        <caption className="unseen">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: two columns may have the same name.
              <th key={index} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        {children}
      </table>
    </section>
  );
}
