import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useEffect, useId, useState } from "react";
import { Dialog } from "../../design/dialog.tsx";
import { Alert } from "../../design/form.tsx";
import { useAccountAddress } from "../../session/address.ts";
import { texts } from "../../texts.ts";
import { MOST_ENVIRONMENTS, MOST_PROJECTS, type Place, placesOf } from "./places.ts";

const MOST_SHOWN = 30;

/** Goes to what has a name: every word that is typed must be in it. */
export function Switcher({ onClose }: { onClose: () => void }) {
  const { accountId } = useAccountAddress();
  const { places, error } = usePlaces(accountId);
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const navigate = useNavigate();
  const list = useId();
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const found = places.filter((place) => words.every((word) => place.words.join(" / ").includes(word)));
  const shown = found.slice(0, MOST_SHOWN);
  const current = Math.min(chosen, shown.length - 1);

  const open = (place: Place | undefined) => {
    if (!place) return;
    onClose();
    const { service, ...params } = place.params as Required<Place["params"]>;
    const environment = "/accounts/$accountId/projects/$projectId/environments/$environmentId";
    void (service
      ? navigate({ to: `${environment}/services/$service`, params: { ...params, service } })
      : navigate({ to: environment, params }));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move === undefined && event.key !== "Enter") return;
    event.preventDefault();
    if (move) setChosen((current + move + shown.length) % Math.max(1, shown.length));
    else open(shown[current]);
  };

  return (
    <Dialog title={texts.switcher.title} onClose={onClose}>
      <input
        type="text"
        role="combobox"
        aria-label={texts.switcher.label}
        placeholder={texts.switcher.label}
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={shown.length > 0 ? `${list}-${current}` : undefined}
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onChange={({ target }) => {
          setTyped(target.value);
          setChosen(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div role="listbox" id={list} aria-label={texts.switcher.title} className="choices">
        {shown.map((place, index) => (
          <div
            key={place.words.join("/")}
            role="option"
            id={`${list}-${index}`}
            aria-selected={index === current}
            tabIndex={-1}
            onClick={() => open(place)}
            onKeyDown={onKeyDown}
          >
            {place.words.join(" / ")}
          </div>
        ))}
      </div>
      {shown.length === 0 && <p className="hint">{texts.switcher.none}</p>}
      <Alert error={error} />
      <p className="hint">
        {texts.switcher.keys} {texts.switcher.leftOut(MOST_PROJECTS, MOST_ENVIRONMENTS)}
      </p>
    </Dialog>
  );
}

function usePlaces(accountId: string) {
  const [places, setPlaces] = useState<Place[]>([]);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    let isOpen = true;
    const read = async () => {
      const all: Place[] = [];
      for await (const place of placesOf(accountId)) {
        if (!isOpen) return;
        all.push(place);
        setPlaces([...all]);
      }
    };
    read().catch((reason: unknown) => isOpen && setError(reason));
    return () => {
      isOpen = false;
    };
  }, [accountId]);
  return { places, error };
}
