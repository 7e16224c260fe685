import { dollars } from "../../design/format.ts";
import { Table } from "../../design/table.tsx";
import { texts } from "../../texts.ts";

export type Amount = { label: string; usd: number | undefined };

type AmountsProps = {
  caption: string;
  lines: Amount[];
  total: Amount;
  /** Whole cents by default. */
  format?: (usd: number) => string;
  /** Whether lines of 0 are shown too. */
  showsZero?: boolean;
};

/** What adds up to a total, line by line. */
export function Amounts({ caption, lines, total, format = dollars, showsZero }: AmountsProps) {
  return (
    <Table caption={caption} columns={[texts.billing.what, texts.billing.amount]} className="amounts">
      <tbody>
        {lines
          .filter(({ usd }) => usd !== undefined && (showsZero || usd !== 0))
          .map(({ label, usd = 0 }) => (
            <tr key={`${label} ${usd}`}>
              <th scope="row">{label}</th>
              <td className="number">{format(usd)}</td>
            </tr>
          ))}
      </tbody>
      <tfoot>
        <tr>
          <th scope="row">{total.label}</th>
          <td className="number">{format(total.usd ?? 0)}</td>
        </tr>
      </tfoot>
    </Table>
  );
}
