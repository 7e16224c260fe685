import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { NotificationPref } from "../../../typescript/src/index.ts";
import { Alert } from "../../design/form.tsx";
import { Failure, Loading } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { queries } from "../../live/queries.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

const KEY = ["notification-prefs"];

type Frequency = NotificationPref["frequency"];
type Choice = { feed: boolean; mail: boolean; frequency: Frequency };

const FREQUENCIES: Frequency[] = ["immediate", "daily", "weekly"];
const CATEGORIES: NotificationPref["category"][] = ["deploy", "billing", "member", "deletion", "social"];

/** How the user is notified of each kind. */
export function Preferences() {
  const kinds = useQuery({ queryKey: KEY, queryFn: () => berth.notifications.listPreferences() });
  const { preferences, explained, inFeed, byMail, howOften, kind, categories } = texts.notifications;
  if (kinds.isPending) return <Loading />;
  if (!kinds.data) return <Failure isScreen error={kinds.error} retry={() => void kinds.refetch()} />;
  return (
    <>
      <title>{`${preferences} – ${texts.name}`}</title>
      <h1>{preferences}</h1>
      <p className="hint">{explained}</p>
      {CATEGORIES.map((category) => (
        <section key={category}>
          <h2>{categories[category]}</h2>
          <Table caption={categories[category]} columns={[kind, inFeed, byMail, howOften]}>
            <tbody>
              {kinds.data
                .filter((one) => one.category === category)
                .map((one) => (
                  <Row key={one.kind} preference={one} />
                ))}
            </tbody>
          </Table>
        </section>
      ))}
    </>
  );
}

function Row({ preference }: { preference: NotificationPref }) {
  const { kind, label, channel, frequency, forceEmail } = preference;
  const now: Choice = {
    feed: channel === "in_app" || channel === "both",
    mail: channel === "email" || channel === "both",
    frequency,
  };
  const [wanted, setWanted] = useState<Choice>();
  const change = useMutation({
    // One after the other: the last choice is the one that stays.
    scope: { id: kind },
    mutationFn: (choice: Choice) =>
      berth.notifications.setPreference({
        kind,
        channel: channelOf(choice),
        frequency: choice.frequency,
      }),
    onSuccess: (changed) =>
      queries.setQueryData(KEY, (all: NotificationPref[] | undefined) =>
        all?.map((one) => (one.kind === kind ? changed : one)),
      ),
    onSettled: (_answer, _error, choice) => setWanted((latest) => (latest === choice ? undefined : latest)),
  });
  const shown = wanted ?? now;
  const set = (part: Partial<Choice>) => {
    const choice = { ...shown, ...part };
    setWanted(choice);
    change.mutate(choice);
  };
  const { inFeed, byMail, always, howOften, frequencies } = texts.notifications;
  return (
    <tr>
      <th scope="row">
        {label}
        <Alert error={change.error} />
      </th>
      <td>
        <input
          type="checkbox"
          aria-label={`${label}: ${inFeed}`}
          checked={shown.feed}
          onChange={({ target }) => set({ feed: target.checked })}
        />
      </td>
      <td>
        {forceEmail ? (
          <span className="hint">{always}</span>
        ) : (
          <input
            type="checkbox"
            aria-label={`${label}: ${byMail}`}
            checked={shown.mail}
            onChange={({ target }) => set({ mail: target.checked })}
          />
        )}
      </td>
      <td>
        {forceEmail ? (
          <span className="hint">{frequencies.immediate}</span>
        ) : (
          shown.mail && (
            <select
              aria-label={`${label}: ${howOften}`}
              value={shown.frequency}
              onChange={({ target }) => set({ frequency: target.value as Frequency })}
            >
              {FREQUENCIES.map((one) => (
                <option key={one} value={one}>
                  {frequencies[one]}
                </option>
              ))}
            </select>
          )
        )}
      </td>
    </tr>
  );
}

function channelOf({ feed, mail }: Choice): NotificationPref["channel"] {
  if (mail) return feed ? "both" : "email";
  return feed ? "in_app" : "off";
}
