import { fineDollars } from "../../design/format.ts";
import { texts } from "../../texts.ts";
import type { UsageDay } from "./days.ts";

const HEIGHT = 160;
const BAR = 20;
const GAP = 4;

export type Series = { id: string; name: string };

type ChartProps = {
  days: UsageDay[];
  series: Series[];
  /** Whether there is more than the series. */
  hasRest: boolean;
  label: (day: string) => string;
};

/** Returns what services cost on a day that have no series of their own. */
export const restOf = ({ total, byService }: UsageDay, series: Series[]) =>
  Math.max(0, total - series.reduce((sum, { id }) => sum + (byService.get(id) ?? 0), 0));

/** A bar for each day, divided by service. The table beside it says the same in numbers. */
export function Chart({ days, series, hasRest, label }: ChartProps) {
  const most = Math.max(...days.map(({ total }) => total));
  const width = days.length * (BAR + GAP);
  const { usage } = texts.billing;
  return (
    <figure className="chart">
      <svg viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={usage.chart(days.length)}>
        {days.map((one, index) => {
          const parts = [...series.map(({ id }) => one.byService.get(id) ?? 0), restOf(one, series)];
          let top = HEIGHT;
          return (
            <g key={one.day}>
              <title>{`${label(one.day)}: ${fineDollars(one.total)}`}</title>
              <rect className="ground" x={index * (BAR + GAP)} y={0} width={BAR} height={HEIGHT} />
              {parts.map((usd, part) => {
                const height = most > 0 ? (usd / most) * HEIGHT : 0;
                top -= height;
                return (
                  <rect
                    key={series[part]?.id ?? "rest"}
                    className={`part part-${part}`}
                    x={index * (BAR + GAP)}
                    y={top}
                    width={BAR}
                    height={height}
                  />
                );
              })}
            </g>
          );
        })}
      </svg>
      <figcaption>
        <p className="axis hint">
          <span>{label(days[0]?.day ?? "")}</span>
          <span>{usage.most(fineDollars(most))}</span>
          <span>{label(days.at(-1)?.day ?? "")}</span>
        </p>
        <ul className="legend">
          {[...series, ...(hasRest ? [{ id: "rest", name: usage.rest }] : [])].map(({ id, name }, part) => (
            <li key={id}>
              <svg width="12" height="12" aria-hidden="true">
                <rect className={`part part-${part}`} width="12" height="12" />
              </svg>{" "}
              {name}
            </li>
          ))}
        </ul>
      </figcaption>
    </figure>
  );
}
