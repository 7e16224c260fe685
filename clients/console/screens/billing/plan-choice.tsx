import { Field } from "../../design/form.tsx";
import { texts } from "../../texts.ts";

export type Choice = { tierId: "pro" | "team"; cadence: "monthly" | "annual" };

type PlanChoiceProps = { choice: Choice; onChoose: (choice: Choice) => void };

/** The plans that can be bought, and how they are paid. */
export function PlanChoice({ choice, onChoose }: PlanChoiceProps) {
  const { plan, payment, cadenceChoices } = texts.billing;
  return (
    <div className="columns">
      <Field label={plan.plan}>
        {(id) => (
          <select
            id={id}
            value={choice.tierId}
            onChange={({ target }) => onChoose({ ...choice, tierId: target.value as Choice["tierId"] })}
          >
            <option value="pro">pro</option>
            <option value="team">team</option>
          </select>
        )}
      </Field>
      <Field label={payment}>
        {(id) => (
          <select
            id={id}
            value={choice.cadence}
            onChange={({ target }) => onChoose({ ...choice, cadence: target.value as Choice["cadence"] })}
          >
            <option value="monthly">{cadenceChoices.monthly}</option>
            <option value="annual">{cadenceChoices.annual}</option>
          </select>
        )}
      </Field>
    </div>
  );
}
