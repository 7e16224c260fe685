import { Link } from "@tanstack/react-router";
import { type RefObject, useLayoutEffect, useRef, useState } from "react";
import type { ServiceState } from "../../../typescript/src/index.ts";
import { Address } from "../../design/address.tsx";
import { Alert } from "../../design/form.tsx";
import { Status } from "../../design/state.tsx";
import { useEnvironmentAddress } from "../../session/address.ts";
import { texts } from "../../texts.ts";
import { columnsOf, type Tie, useTies } from "./connections.ts";

/** More cannot be taken in, and each costs a request. */
const MOST = 60;

/** The services of an environment as cards, with an arrow from each to the addons whose keys it receives. */
export function Canvas({ services }: { services: ServiceState[] }) {
  const at = useEnvironmentAddress();
  const shown = services.slice(0, MOST);
  const { ties, error, isPending } = useTies(at, shown);
  const { apps, addons, others } = columnsOf(shown, ties);
  const [active, setActive] = useState<string>();
  const area = useRef<HTMLDivElement>(null);
  const arrows = useArrows(area, ties);
  const column = (label: string, own: ServiceState[]) => (
    <ul aria-label={label}>
      {own.map((service) => (
        <Card key={service.id} service={service} ties={ties} onActive={setActive} />
      ))}
    </ul>
  );
  return (
    <>
      {services.length > MOST && <p className="note">{texts.canvas.leftOut(services.length - MOST)}</p>}
      {isPending && <p role="status">{texts.canvas.reading}</p>}
      <Alert error={error} />
      {ties.length > 0 && (
        <div className="canvas" ref={area}>
          <svg aria-hidden="true">
            {arrows.map(({ id, ends, path }) => (
              <path
                key={id}
                d={path}
                className={active !== undefined && ends.includes(active) ? "active" : ""}
              />
            ))}
          </svg>
          {column(texts.canvas.services, apps)}
          {column(texts.canvas.addons, addons)}
        </div>
      )}
      {others.length > 0 && (
        <section>
          {ties.length > 0 && <h2>{texts.canvas.others}</h2>}
          <ul className="cards">
            {others.map((service) => (
              <Card key={service.id} service={service} ties={ties} onActive={setActive} />
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

type CardProps = { service: ServiceState; ties: Tie[]; onActive: (id: string | undefined) => void };

function Card({ service, ties, onActive }: CardProps) {
  const at = useEnvironmentAddress();
  const { id, name, type, status, statusMessage, url, replicas } = service;
  const leave = () => onActive(undefined);
  return (
    <li className="card" data-service={id}>
      <h2>
        <Link
          to="/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service"
          params={{ ...at, service: name }}
          className="whole"
          onFocus={() => onActive(id)}
          onBlur={leave}
          onMouseEnter={() => onActive(id)}
          onMouseLeave={leave}
        >
          {name}
        </Link>
      </h2>
      <p>
        <Status status={status} /> <span className="hint">{texts.types[type]}</span>
      </p>
      {statusMessage && <p className="hint">{statusMessage}</p>}
      {url && (
        <p>
          <Address url={url} />
        </p>
      )}
      <p className="hint">{texts.canvas.replicas(replicas.available, replicas.wanted)}</p>
      {ties.map(
        ({ service: from, addon, variables }) =>
          from.id === id && (
            <p key={addon.id} className="hint">
              {texts.canvas.uses(addon.name)} <code>{variables.join(", ")}</code>
            </p>
          ),
      )}
    </li>
  );
}

type Arrow = { id: string; ends: string[]; path: string };

/** Measures where the cards are, whenever that changes, and returns the arrows between them. */
function useArrows(area: RefObject<HTMLDivElement | null>, ties: Tie[]): Arrow[] {
  const [arrows, setArrows] = useState<Arrow[]>([]);
  const measure = () => {
    const within = area.current?.getBoundingClientRect();
    if (!area.current || !within) return;
    const cards = new Map<string | undefined, DOMRect>();
    for (const card of area.current.querySelectorAll<HTMLElement>("[data-service]"))
      cards.set(card.dataset.service, card.getBoundingClientRect());
    const found = ties.flatMap(({ service, addon }) => {
      const [from, to] = [cards.get(service.id), cards.get(addon.id)];
      if (!from || !to) return [];
      const [x, y] = [from.right - within.left, from.top + from.height / 2 - within.top];
      const [endX, endY] = [to.left - within.left, to.top + to.height / 2 - within.top];
      const middle = (x + endX) / 2;
      const curve = `M${x} ${y}C${middle} ${y} ${middle} ${endY} ${endX} ${endY}`;
      const head = "m-8 -5l8 5l-8 5";
      return { id: `${service.id} ${addon.id}`, ends: [service.id, addon.id], path: curve + head };
    });
    setArrows((now) => (JSON.stringify(now) === JSON.stringify(found) ? now : found));
  };
  const latest = useRef(measure);
  latest.current = measure;
  useLayoutEffect(measure);
  const isDrawn = ties.length > 0;
  useLayoutEffect(() => {
    if (!area.current || !isDrawn) return;
    const observer = new ResizeObserver(() => latest.current());
    observer.observe(area.current);
    return () => observer.disconnect();
  }, [area, isDrawn]);
  return arrows;
}
