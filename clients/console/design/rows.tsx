import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useLayoutEffect, useRef, useState } from "react";

type RowsProps<T> = {
  items: T[];
  keyOf: (item: T) => string;
  rowHeight: number;
  columns: number;
  row: (item: T) => ReactNode;
};

/** As many rows are drawn at once without being noticed. */
const FEW = 100;

/** The body of a table: of many rows only those near what is seen are drawn. */
export function Rows<T>({ items, keyOf, rowHeight, columns, row }: RowsProps<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    if (body.current) setTop(body.current.getBoundingClientRect().top + scrollY);
  }, []);
  const isLong = items.length > FEW;
  const virtual = useWindowVirtualizer({
    count: isLong ? items.length : 0,
    estimateSize: () => rowHeight,
    overscan: 20,
    scrollMargin: top,
  });
  const drawn = virtual.getVirtualItems();
  const before = drawn[0] ? drawn[0].start - top : 0;
  const after = virtual.getTotalSize() - ((drawn.at(-1)?.end ?? top) - top);
  const shown = isLong ? drawn.map(({ index }) => items[index] as T) : items;
  return (
    <tbody ref={body}>
      {isLong && <Gap height={before} columns={columns} />}
      {shown.map((item) => (
        <tr key={keyOf(item)}>{row(item)}</tr>
      ))}
      {isLong && <Gap height={after} columns={columns} />}
    </tbody>
  );
}

function Gap({ height, columns }: { height: number; columns: number }) {
  if (height <= 0) return null;
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: an empty row takes no focus.
    <tr aria-hidden="true" className="gap">
      <td colSpan={columns} style={{ height }} />
    </tr>
  );
}
