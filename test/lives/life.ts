import { newId } from "../../services/kit/ids.ts";
import { isRefusal } from "../../services/kit/rpc/refusals.ts";
import { createRandom, type Random } from "../../services/kit/testing/random.ts";
import {
  type Added,
  type Bought,
  isDraft,
  monthsLater,
  promised,
  roundingOf,
  type Service,
  type Term,
} from "./book.ts";
import { type Company, Killed } from "./company.ts";

const HOUR = 3_600;
const DAY = 24 * HOUR;
/** How long nobody else reports what a process that was killed was about to report. */
const LEASE = 301;
/** When the ledger has frozen a month of compute that ended. */
const CLOSES_AFTER = 46 * 60;
const INCLUDED = { pro: 3, team: 10 };
/** Nano-USD a second of one replica of a web service. */
const RATES = { nano: 2_250, small: 4_500, medium: 9_000, large: 24_000 };
const CODES = { forever: 20, once: 33.3, repeating: 50 };
/** What is added to prices, in percent, by where the account is. */
const TAXES = { DE: 19, CH: 8.1, US: 0 };
const GOOD = "pm_card_visa";
const FAILING = "pm_card_chargeCustomerFail";

type Running = Service & {
  serviceId: string;
  intervalId: string;
  size: string;
  replicas: number;
  seq: number;
};
type Plan = { tier: "pro" | "team"; year: boolean };
type Subscribed = Bought &
  Plan & {
    id: string;
    customer: string;
    members: number;
    code?: keyof typeof CODES;
    /** From when its terms count. */
    anchor: number;
    /** Its plan from the end of the present term on. */
    next?: Plan | undefined;
  };

const show = (value: unknown) =>
  JSON.stringify(value, (name, part) =>
    typeof part === "bigint" ? Number(part) : name === "$typeName" ? undefined : part,
  );

/** What went wrong in a life: what was expected, and all that happened until then. */
export class Unlike extends Error {
  override name = "Unlike";
}

/**
 * Lives two years of an account that a seed decides, and compares at its end what was charged less what was refunded with
 * the book, and each preview with what happened. Throws Unlike.
 */
export async function live(company: Company, seed: number): Promise<void> {
  const life = createLife(company, createRandom(seed));
  try {
    await life.run();
  } catch (error) {
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    throw new Unlike(`The life ${seed} went wrong: ${reason}\n${life.story.join("\n")}`);
  }
}

function createLife(company: Company, random: Random) {
  const { clock, stripe } = company;
  const accountId = newId("acc");
  const who = {
    caller: { kind: "user", id: "usr_1", accountId, role: "owner", ip: "" },
    requestId: "req",
  } as const;
  const story: string[] = [];
  const bought: Subscribed[] = [];
  const services: Running[] = [];
  const end = clock.now() + 2 * 365 * DAY;
  const country = random.of(["DE", "CH", "US"] as const);
  let members = 1;
  let gifts = 0;
  let isLate = false;
  let card = GOOD;
  let cardFixedAt = Number.POSITIVE_INFINITY;

  const tell = (what: string) => story.push(`${new Date(clock.now() * 1_000).toISOString()} ${what}`);
  const current = () => bought.find((one) => !one.end || one.end.at > clock.now());
  const chance = (percent: number) => random.below(100) < percent;
  const expect = (what: string, actual: unknown, wanted: unknown) => {
    if (show(actual) !== show(wanted))
      throw new Error(`${what}: ${show(actual)}, but expected ${show(wanted)}`);
  };

  /** Does something, during which billing may be killed at any of its requests; then it goes on by itself. */
  async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
    if (chance(20)) company.power.killAt(1 + random.below(40));
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
      tell("billing is killed");
      return undefined;
    } finally {
      company.power.restart();
    }
  }

  /** Delivers what the provider reports: late, or twice. */
  async function deliver(): Promise<void> {
    const customer = bought.at(-1)?.customer;
    if (!customer) return;
    for (let n = chance(20) ? 2 : 1; n > 0; n--)
      if ((await attempt(() => company.sync(customer).then(() => true))) === undefined)
        await company.sync(customer);
    await noteTerms();
  }

  async function beat(): Promise<void> {
    for (const one of services.filter(({ end }) => end === undefined)) await report(one, "heartbeat");
  }

  function report(service: Running, kind: "start" | "stop" | "heartbeat"): Promise<void> {
    const { serviceId, intervalId, size, replicas } = service;
    const ids = { accountId, projectId: "prj_1", serviceId, serviceType: "web", intervalId, size, replicas };
    return company.report({ ...ids, kind, seq: service.seq++, at: clock.now() * 1_000 });
  }

  /** Moves the clock to a time; on the way each month of compute is closed before its invoice is final. */
  async function moveTo(time: number): Promise<void> {
    for (;;) {
      const now = clock.now();
      const ends = bought.flatMap(({ computeEnds, end }) =>
        [...computeEnds, end?.at ?? 0].filter((at) => at <= (end?.at ?? at)),
      );
      const closes = ends.map((at) => at + CLOSES_AFTER).filter((at) => at > now);
      const bills = ends.map((at) => at + HOUR + 60).filter((at) => at > now);
      const next = Math.min(time, cardFixedAt, ...closes, ...bills);
      clock.advance(Math.max(0, next - now));
      await beat();
      if (bills.includes(next) || (next >= time && !isLate)) await deliver();
      if (closes.includes(next)) await close();
      if (next >= cardFixedAt) await setCard(GOOD);
      if (next >= time) return;
    }
  }

  async function close(): Promise<void> {
    if (await attempt(() => company.work().then(() => true))) return;
    // Until the lease of the process that was killed is over.
    clock.advance(LEASE);
    await company.work();
  }

  /** Notes the terms that began, and whom they bill, as the words of the plan say. */
  async function noteTerms(): Promise<void> {
    for (const one of bought) {
      const until = Math.min(one.end?.at ?? Number.POSITIVE_INFINITY, clock.now() + 1);
      for (let last = one.terms.at(-1)!; last.end < until; last = one.terms.at(-1)!) {
        const start = last.end;
        if (one.next) beginNext(one, start);
        const months = one.year ? 12 : 1;
        const seats = Math.max(0, one.members - INCLUDED[one.tier]);
        let n = 1;
        while (monthsLater(one.anchor, months * n) <= start) n++;
        one.terms.push({
          ...{ tier: one.tier, year: one.year, start, from: start, end: monthsLater(one.anchor, months * n) },
          ...{ seats, added: [], unpaid: false, givenBack: 0 },
          discount: discountOf(one, start),
        });
      }
      for (let k = 1; ; k++) {
        const at = monthsLater(one.anchor, k);
        if (at > clock.now() + 32 * DAY) break;
        if (at > (one.computeEnds.at(-1) ?? 0)) one.computeEnds.push(at);
      }
    }
  }

  /** Begins the plan that was to begin with a new term: with another cadence, terms count from there. */
  function beginNext(one: Subscribed, start: number): void {
    const { tier, year } = one.next!;
    if (year !== one.year) {
      one.anchor = start;
      one.computeEnds = one.computeEnds.filter((at) => at <= start);
    }
    if (tier !== one.tier) one.plans.push({ at: start, tier });
    Object.assign(one, { tier, year, next: undefined });
  }

  /** A code is for the plan that it was redeemed for, and takes nothing off another one. */
  function discountOf({ code, terms, tier }: Subscribed, at: number): number {
    if (!code || code === "once" || tier !== terms[0]!.tier) return 0;
    return code === "forever" || at < monthsLater(terms[0]!.start, 3) ? CODES[code] : 0;
  }

  async function subscribe(): Promise<void> {
    const tier = random.of(["pro", "team"] as const);
    const year = chance(60);
    const cadence = year ? "annual" : "monthly";
    const code =
      bought.length === 0 && chance(50) ? random.of(Object.keys(CODES) as (keyof typeof CODES)[]) : undefined;
    if (code) {
      const products = [`berth_plan_${tier}`, `berth_seat_${tier}`];
      const repeating = code === "repeating" && { duration_in_months: 3 };
      const terms = { percent_off: CODES[code], duration: code, ...repeating, applies_to: { products } };
      const coupon = await stripe.coupons.create(terms);
      const name = newId("cod").replace("_", "");
      await stripe.promotionCodes.create({ code: name, promotion: { type: "coupon", coupon: coupon.id } });
      await company.coupons.redeem(accountId, name, who, async (work) => {
        const tx = await company.pool.connect();
        await work(tx).finally(() => tx.release());
      });
    }
    const areTaxesOn = chance(70);
    company.setTaxes(areTaxesOn);
    // While the report of an end is late, a checkout is refused.
    await deliver();
    const preview = await company.previewCheckout(accountId, tier, cadence);
    const url = await company.openCheckout(accountId, tier, cadence, "usr_1");
    const session = new URL(url).pathname.split("/").at(-1);
    const body = JSON.stringify({ card: "4242424242424242", country });
    const paid = await fetch(`${company.url}/_sim/checkout/${session}/complete`, { method: "POST", body });
    if (!paid.ok) throw new Error(await paid.text());
    card = GOOD;
    cardFixedAt = Number.POSITIVE_INFINITY;
    const made = await stripe.checkout.sessions.retrieve(session!);
    const id = made.subscription as string;
    const invoice = await stripe.invoices.retrieve(made.invoice as string);
    const { taxAtCheckout, totalUsd, balanceUsd } = preview;
    if (taxAtCheckout)
      expect("before tax", invoice.total_excluding_tax, Math.round((totalUsd - balanceUsd) * 100));
    else expect("the first payment is as previewed", invoice.amount_paid, Math.round(totalUsd * 100));
    const start = clock.now();
    const tax = areTaxesOn ? TAXES[country] : 0;
    tell(
      `subscribes to ${tier} ${cadence} with ${members} members, code ${code ?? "none"}, tax ${tax} %: ${id}`,
    );
    const seats = Math.max(0, members - INCLUDED[tier]);
    const discount = code ? CODES[code] : 0;
    const term: Term = {
      tier,
      year,
      start,
      from: start,
      end: monthsLater(start, year ? 12 : 1),
      seats,
      added: [],
      unpaid: false,
      discount,
      givenBack: 0,
    };
    const about = { id, customer: made.customer as string, members, ...(code && { code }) };
    const plans = [{ at: start, tier }];
    bought.push({
      ...about,
      ...{ tax, tier, year },
      anchor: start,
      plans,
      computeFrom: start,
      computeEnds: [],
      terms: [term],
    });
    if (chance(30)) await moveTo(clock.now() + random.below(2 * HOUR));
    await deliver();
    bought.at(-1)!.computeFrom = clock.now();
  }

  async function changeMembers(): Promise<void> {
    const change = random.between(-4, 6);
    // So many join one after another: with an invoice the provider shows ten lines, and each who joins adds two.
    const steps = change === 6 ? Array<number>(change).fill(1) : [change];
    for (const [n, step] of steps.entries()) {
      if (n > 0) await moveTo(clock.now() + DAY);
      await becomeMembers(Math.max(1, members + step));
    }
  }

  async function becomeMembers(count: number): Promise<void> {
    members = count;
    await company.setMembers(accountId, members);
    await deliver();
    const one = current();
    tell(`has ${members} members`);
    if (!one) return;
    const wanted = Math.max(0, members - INCLUDED[one.tier]);
    const term = one.terms.at(-1)!;
    const paid = Math.max(term.seats, ...term.added.map(({ to }) => to));
    if (wanted > paid) {
      const added: Added = {
        at: clock.now(),
        from: paid,
        to: wanted,
        unpaid: false,
        // Of the invoice that asks for them: in a monthly plan that is the next one, by when a code may have ended.
        discount: discountOf(one, term.year ? clock.now() : term.end),
      };
      term.added.push(added);
    }
    one.members = members;
  }

  /** Changes the plan or the cadence: now, or with the next term. */
  async function changePlan(): Promise<void> {
    const one = current();
    if (!one || one.end) return;
    const asked = random.of([
      { tierId: "team" },
      { tierId: "pro" },
      { cadence: "annual" },
      { cadence: "monthly" },
    ]);
    await noteTerms();
    const term = one.terms.at(-1)!;
    // What staff gave back of a term is not returned again.
    if (asked.tierId === "team" && term.givenBack > 0) return;
    await deliver();
    const before = await moved();
    const preview = await company.previewChange(accountId, asked).catch(unlessRefused);
    if (!preview) return void tell(`cannot change to ${show(asked)}`);
    const totalCents = Math.round(preview.totalUsd * 100);
    const request = { ...asked, totalCents };
    let answer = await attempt(() => company.changePlan(accountId, request, who).catch(unlessRefused));
    if (!answer) {
      await company.resume();
      answer = await company.changePlan(accountId, asked, who).catch(unlessRefused);
    } else expect("the answer is the preview of the change", answer, preview);
    await deliver();
    const after = await moved();
    const found = await stripe.subscriptions.retrieve(one.id, { expand: ["schedule"] });
    const plan = found.items.data.find(({ price }) => price.metadata.kind === "plan")!.price;
    const isMade = answer !== undefined || plan.metadata.tierId !== one.tier;
    tell(`changes to ${show(asked)}: ${isMade ? show(preview) : "declined"}`);
    if (!isMade) return expect("a declined change moves nothing", after, before);
    expect("the change charges what it says", after.paid - before.paid, totalCents);
    expect("the balance too", after.balance - before.balance, -Math.round(preview.balanceUsd * 100));
    if (preview.effect === "now" && preview.tierId !== one.tier) upgrade(one, term);
    else if (preview.effect === "now") one.next = undefined;
    else if (preview.effect === "period_end")
      one.next = { tier: preview.tierId as Plan["tier"], year: preview.cadence === "annual" };
  }

  function upgrade(one: Subscribed, term: Term): void {
    const at = clock.now();
    const discount = discountOf(one, at);
    term.settled = { at, seats: Math.max(0, one.members - INCLUDED[one.tier]), discount };
    // Its invoice asks for members who waited for the next one too.
    if (!term.year) for (const added of term.added) added.discount = discount;
    one.tier = "team";
    one.plans.push({ at, tier: one.tier });
    const seats = Math.max(0, one.members - INCLUDED.team);
    const { settled: _, ...same } = term;
    const begun = { tier: one.tier, start: at, seats, discount: discountOf(one, at) };
    one.terms.push({ ...same, ...begun, added: [], unpaid: false });
  }

  /** Undoes a cancellation that has not ended. */
  async function resume(): Promise<void> {
    const one = current();
    if (!one?.end || one.end.now) return;
    const request = { cancelAtPeriodEnd: false };
    if (!(await attempt(() => company.changePlan(accountId, request, who)))) {
      await company.resume();
      await company.changePlan(accountId, request, who);
    }
    delete one.end;
    tell(`undoes the cancellation of ${one.id}`);
    await deliver();
  }

  function unlessRefused(error: unknown): undefined {
    if (!isRefusal(error) || error.message.includes("does not answer")) throw error;
  }

  async function startService(): Promise<void> {
    const size = random.of(["nano", "small", "medium", "large"] as const);
    const replicas = random.between(1, 3);
    const ids = { serviceId: newId("svc"), intervalId: newId("uin") };
    const service = { ...ids, size, replicas, start: clock.now(), nanoUsd: RATES[size] * replicas, seq: 0 };
    services.push(service);
    await report(service, "start");
    tell(`runs ${replicas} × ${size}`);
  }

  async function stopService(): Promise<void> {
    const running = services.filter(({ end }) => end === undefined);
    if (running.length === 0) return;
    const service = random.of(running);
    await report(service, "stop");
    service.end = clock.now();
    tell(`stops ${service.replicas} × ${service.size}`);
  }

  async function setCard(next: string): Promise<void> {
    const one = current();
    cardFixedAt = Number.POSITIVE_INFINITY;
    if (!one || card === next) return;
    // The provider has begun to count down to when it gives up.
    if (next === FAILING && (await stillOpen(one)) > 0) return;
    card = next;
    const method = await stripe.paymentMethods.attach(next, { customer: one.customer });
    await stripe.subscriptions.update(one.id, { default_payment_method: method.id });
    tell(`pays with ${next}`);
    // Before the provider gives up.
    if (next === FAILING) cardFixedAt = clock.now() + random.between(DAY, 12 * DAY);
  }

  async function gift(): Promise<void> {
    const one = current();
    if (!one) return;
    const { balance } = (await stripe.customers.retrieve(one.customer)) as { balance: number };
    const cents = random.between(1, 30_000);
    await stripe.customers.update(one.customer, { balance: balance - cents });
    gifts += cents;
    tell(`is given ${cents} on its balance`);
  }

  /** Staff refunds a part of the present term. */
  async function giveBack(): Promise<void> {
    const one = current();
    const term = one?.terms.at(-1);
    if (!one || !term || term.givenBack > 0 || term.seats > 0) return;
    const { data } = await stripe.invoices.list({
      subscription: one.id,
      status: "paid",
      expand: ["data.payments"],
    });
    const isTerm = ({ lines: { data: lines } }: (typeof data)[number]) =>
      lines.length === 1 &&
      lines[0]!.period.start === term.start &&
      lines[0]!.pricing?.price_details?.product?.startsWith("berth_plan");
    const invoice = data.find(isTerm);
    const intent = invoice?.payments?.data[0]?.payment.payment_intent as string | undefined;
    if (!invoice || !intent || invoice.amount_paid < 1_000) return;
    term.givenBack = random.between(1, invoice.amount_paid);
    await stripe.refunds.create({ payment_intent: intent, amount: term.givenBack });
    tell(`is refunded ${term.givenBack} by staff`);
  }

  /** What moved at the provider: money from cards and back, what is still asked for, and the balance. */
  async function moved() {
    const all = { customer: bought.at(-1)?.customer ?? "", limit: 100 };
    const sum = (amounts: number[]) => amounts.reduce((total, amount) => total + amount, 0);
    const customer = (await stripe.customers.retrieve(all.customer)) as { balance: number };
    const invoices = await stripe.invoices.list(all).autoPagingToArray({ limit: 10_000 });
    const refunds = await stripe.refunds.list({ limit: 100 }).autoPagingToArray({ limit: 10_000 });
    const own = refunds.filter((refund) => (refund as { customer?: string }).customer === all.customer);
    return {
      paid: sum(invoices.map(({ amount_paid }) => amount_paid)),
      refunded: sum(own.map(({ amount }) => amount)),
      open: sum(
        invoices.filter(({ status }) => status === "open").map(({ amount_remaining }) => amount_remaining),
      ),
      balance: customer.balance,
    };
  }

  async function cancel(): Promise<void> {
    const one = current();
    if (!one || one.end) return;
    await noteTerms();
    const before = await moved();
    const preview = await company.previewCancel(accountId);
    await noteUnpaid(one);
    const answer = await attempt(() => company.cancel(accountId, who));
    if (!answer) {
      await company.resume();
      await company.cancel(accountId, who).catch(() => {});
    }
    const found = await stripe.subscriptions.retrieve(one.id);
    const isNow = found.status === "canceled";
    one.next = undefined;
    one.end = { at: found.ended_at ?? one.terms.at(-1)!.end, now: isNow, refund: "made" };
    tell(`cancels ${one.id}: ${show(answer ?? "interrupted")}`);
    if (answer) {
      const { status: _, ...rest } = answer;
      expect("the answer is the preview", rest, preview);
      if (isNow) {
        const after = await moved();
        const cents = (usd = 0) => Math.round(usd * 100);
        const charged = cents(answer.charges.reduce((total, { amountUsd }) => total + amountUsd, 0));
        expect("the refund is made", after.refunded - before.refunded, cents(answer.refund?.amountUsd));
        const asked = after.paid + after.open - before.paid - before.open;
        const credited = answer.credits.filter(({ kind }) => kind === "open_invoice");
        const old = cents(credited.reduce((total, { amountUsd }) => total + amountUsd, 0));
        const renewed = before.open - (await stillOpen(one));
        if (before.open === 0) expect("the charges are made", asked, charged - old);
        else if (renewed === 0) expect("nothing else is asked for", asked <= charged, true);
      }
    }
    const waits = isNow && (await isUnderReview(one.id));
    if (waits) {
      one.end.refund = "waits";
      if (chance(70)) await decide(one);
    }
    await deliver();
  }

  const stillOpen = async ({ id }: Subscribed) => {
    const { data } = await stripe.invoices.list({ subscription: id, status: "open", limit: 100 });
    return data.reduce((total, { amount_remaining }) => total + amount_remaining, 0);
  };

  /** Notes what of the present term was not paid when it is cut short: a draft, or what a card declined. */
  async function noteUnpaid(one: Subscribed): Promise<void> {
    const term = one.terms.at(-1)!;
    const { data } = await stripe.invoices.list({ subscription: one.id, limit: 100 });
    const startsOf = (invoices: typeof data, kind: "plan" | "seat") =>
      new Set(
        invoices.flatMap(({ lines }) =>
          lines.data
            .filter(({ pricing, amount }) => isOf(pricing, kind) && amount !== 0)
            .map(({ period }) => period.start),
        ),
      );
    const isOf = (pricing: (typeof data)[number]["lines"]["data"][number]["pricing"], kind: string) =>
      pricing?.price_details?.product?.startsWith(`berth_${kind}`) ?? false;
    // A month of compute may begin with the term, and be declined although the term was paid.
    const unpaid = startsOf(
      data.filter(({ status }) => status !== "paid"),
      "plan",
    );
    // A card that is good again pays nothing before the provider tries it again.
    const isDeclined =
      card === FAILING ||
      startsOf(
        data.filter(({ status }) => status === "open"),
        "plan",
      ).has(term.start);
    term.unpaid = unpaid.has(term.start) && (isDraft(term.start, clock.now()) || isDeclined);
    // A renewal bills those from before, also in the second in which somebody is added.
    const unpaidSeats = startsOf(
      data.filter(
        ({ status, billing_reason }) => status !== "paid" && billing_reason !== "subscription_cycle",
      ),
      "seat",
    );
    // Members who are added to a month wait for its next invoice.
    for (const added of term.added) added.unpaid = !term.year || unpaidSeats.has(added.at);
  }

  async function isUnderReview(id: string): Promise<boolean> {
    const text = "select from cancellations where subscription_id = $1 and step = 'review'";
    return (await company.pool.query(text, [id])).rowCount === 1;
  }

  async function decide(one: Subscribed): Promise<void> {
    const made = chance(50);
    if (!(await company.decide(one.id, made ? "ended" : "denied"))) return;
    if (made) await company.resume();
    one.end!.refund = made ? "made" : "denied";
    tell(`staff decides: ${one.end!.refund}`);
  }

  async function act(): Promise<void> {
    const one = current();
    isLate = chance(20);
    if (!one) return chance(60) ? subscribe() : startService();
    const acts = [
      changeMembers,
      startService,
      startService,
      stopService,
      stopService,
      gift,
      giveBack,
      changePlan,
      changePlan,
      resume,
      cancel,
    ];
    if (chance(12)) return card === GOOD ? setCard(FAILING) : setCard(GOOD);
    await random.of(acts)();
  }

  /** Goes to the next thing that happens: at any second, but often around a renewal. */
  async function next(): Promise<void> {
    const one = current();
    const ends = [...(one?.computeEnds ?? []), one?.terms.at(-1)?.end ?? 0].filter((at) => at > clock.now());
    const time =
      ends.length > 0 && chance(25)
        ? random.of(ends.slice(0, 2)) + random.between(-HOUR, 2 * HOUR)
        : clock.now() + random.between(1, 25 * DAY);
    await moveTo(Math.max(clock.now() + 1, Math.min(end, time)));
  }

  return {
    story,
    async run(): Promise<void> {
      await subscribe();
      while (clock.now() < end) {
        await next();
        await act();
      }
      await setCard(GOOD);
      // A subscription lasts a second at least: a period without one is none.
      await moveTo(clock.now() + 1);
      const last = current();
      if (last && !last.end) await cancel();
      await moveTo(Math.max(clock.now(), current()?.end?.at ?? 0) + 15 * DAY);
      const { paid, refunded, open, balance } = await moved();
      const book = promised(bought, services, clock.now());
      const charged = paid - refunded + open + balance + gifts;
      tell(`paid ${paid}, refunded ${refunded}, open ${open}, balance ${balance}, gifts ${gifts}`);
      expect(
        "paid and open, less what was refunded and given, is what the plan promises",
        Math.abs(charged - book) <= roundingOf(bought) ? book : charged,
        book,
      );
      const wrong = company.errors().filter((line) => line.includes("other compute"));
      expect("invoices ask for the compute of the ledger", wrong, []);
    },
  };
}
