import { useNavigate, useSearch } from "@tanstack/react-router";
import type { AuditEvent } from "../../../typescript/src/index.ts";
import { actorOf, wordsOf } from "../../design/audit-words.ts";
import { Field } from "../../design/form.tsx";
import { More } from "../../design/more.tsx";
import { Rows } from "../../design/rows.tsx";
import { Ago, Empty, Failure, Loading } from "../../design/state.tsx";
import { AccountTabs } from "../../design/tabs.tsx";
import { type Names, useNames } from "../../live/names.ts";
import { usePages } from "../../live/pages.ts";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

type Filter = { actor?: string | undefined; action?: string | undefined; since?: string | undefined };

/** What was done in the account, the newest first, as it was when it was read. The filter is in the address. */
export function AuditLog() {
  const at = useAccountAddress();
  const filter = useSearch({ strict: false }) as Filter;
  const { actor, action, since } = filter;
  const names = useNames(at);
  const from = since === undefined ? undefined : new Date(`${since}T00:00:00`).toISOString();
  const query = {
    limit: 50,
    ...(actor && { actor }),
    ...(action && { action }),
    ...(from && { since: from }),
  };
  const pages = usePages({
    queryKey: ["audit", at.accountId, query],
    read: (cursor) => berth.auditEvents.list(at, query).page(cursor),
    refetchOnWindowFocus: false,
    staleTime: 0,
  });
  const { title, empty, noMatch, when, who, what, address } = texts.audit;
  const events = pages.data ?? [];
  const isFiltered = Boolean(actor || action || since);
  return (
    <>
      <title>{`${title} – ${texts.name}`}</title>
      <AccountTabs />
      <h1>{title}</h1>
      <Filters filter={filter} names={names} />
      {pages.isPending && <Loading />}
      {!pages.data && pages.error && <Failure error={pages.error} retry={() => void pages.refetch()} />}
      {pages.data && events.length === 0 && <Empty title={isFiltered ? noMatch : empty} />}
      {events.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard, and has no link in it.
        <section className="table" tabIndex={0} aria-label={title}>
          <table>
            <caption className="unseen">{title}</caption>
            <thead>
              <tr>
                {[when, who, what, address].map((column) => (
                  <th key={column} scope="col">
                    {column}
                  </th>
                ))}
              </tr>
            </thead>
            <Rows
              items={events}
              keyOf={({ id }) => id}
              rowHeight={48}
              columns={4}
              row={(event) => <Cells event={event} names={names} />}
            />
          </table>
        </section>
      )}
      <More pages={pages} text={texts.audit.older} />
    </>
  );
}

function Cells({ event, names }: { event: AuditEvent; names: Names }) {
  return (
    <>
      <td>
        <Ago time={event.at} />
      </td>
      <td>
        <bdi>{actorOf(event.actor, names)}</bdi>
      </td>
      <td className="words">{wordsOf(event, names)}</td>
      <td>{event.ip}</td>
    </>
  );
}

function Filters({ filter, names }: { filter: Filter; names: Names }) {
  const { accountId } = useAccountAddress();
  const navigate = useNavigate();
  const change = (part: Filter) => {
    const all = Object.entries({ ...filter, ...part }).filter(([, value]) => value !== "");
    void navigate({
      to: "/accounts/$accountId/audit-events",
      params: { accountId },
      search: Object.fromEntries(all) as Filter,
      replace: true,
    });
  };
  const { actor = "", action = "", since = "" } = filter;
  const people = new Map(names);
  // Somebody who is no member any more, or who cannot be named yet.
  if (actor !== "" && !people.has(actor)) people.set(actor, actor);
  const actions = [...new Set([...Object.keys(texts.audit.actions), ...(action === "" ? [] : [action])])];
  return (
    <div className="tools">
      <Field label={texts.audit.who}>
        {(id) => (
          <select id={id} value={actor} onChange={({ target }) => change({ actor: target.value })}>
            <option value="">{texts.audit.everybody}</option>
            {[...people].map(([userId, name]) => (
              <option key={userId} value={userId}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={texts.audit.what}>
        {(id) => (
          <select id={id} value={action} onChange={({ target }) => change({ action: target.value })}>
            <option value="">{texts.audit.everything}</option>
            {actions.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
      </Field>
      <Field label={texts.audit.since}>
        {(id) => (
          <input
            id={id}
            type="date"
            value={since}
            onChange={({ target }) => change({ since: target.value })}
          />
        )}
      </Field>
    </div>
  );
}
