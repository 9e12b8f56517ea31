#!/usr/bin/env python3
"""Checks that a replay's decisions obey the policy, without the code that made them.

    check.py TRACE POLICY.toml[#NAME] DECISIONS.csv [--wait 10s]
             [--reserve total|context+N|N] [--service ttft=200ms,per_token=20ms]
             [--key FIELD|=NAME] [--cost FIELD] [--time FIELD]

The trace, the policy and the decisions are read here anew, with Python's
standard library alone, and every limit is computed anew, in whole numbers of
any size. Nothing is shared with the engine: no code, no constants, no tables.

What is checked:
  trace     the decisions are of this trace: instants, keys, amounts, durations
  outcome   each outcome is one that its instants allow
  LIMIT     no request started that LIMIT had no room for; and, where it is a
            rate, no window of any length was given more than it allows
  refused   each request refused had no room at its arrival, in the very limit
            that is named (without --wait)
  order     nobody started before an earlier one that still waited (--wait)
  exact     nobody waited a microsecond longer than necessary (--wait)

Prints a line for each check and at last `N passed, M failed`; exits with 1 if
any failed. Two things are left out: what a shadow limit says (it refuses
nobody), and `order` and `exact` if limits are of ancestors of a key.
"""

import argparse
import bisect
import csv
import datetime
import json
import pathlib
import re
import sys
import tomllib

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


# -- reading ------------------------------------------------------------------


def micros(text):
    """'1h 30m' in microseconds."""
    units = {"us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6, "w": 7 * 86400 * 10**6}
    parts = re.findall(r"(\d+)\s*(us|ms|s|m|h|d|w)", text)
    assert parts and re.sub(r"\d+\s*(us|ms|s|m|h|d|w)", "", text).strip() == "", f"cannot read {text!r}"
    return sum(int(number) * units[unit] for number, unit in parts)


def instant(text):
    """A written instant in microseconds since 1970, cut; UTC unless it says otherwise."""
    text = re.sub(r"(\.\d{6})\d+", r"\1", text.strip().replace("Z", "+00:00"))
    parsed = datetime.datetime.fromisoformat(text)
    return ((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def read_azure(lines, options):
    for row in csv.DictReader(lines):
        context, generated = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        yield instant(row["TIMESTAMP"]), row, context, generated, context + generated


LOG = re.compile(r'(\S+) \S+ (.*?) \[([^]]+)\] "((?:[^"\\]|\\.)*)" (\S+) (\S+)(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?')


def read_combined(lines, options):
    for line in filter(str.strip, lines):
        ip, user, time, request, status, sent, _, agent = LOG.match(line).groups()
        method, path = (request.split(" ") + ["", ""])[:2]
        at = (datetime.datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z") - EPOCH) // MICROSECOND
        fields = {"ip": ip, "user": user, "path": path, "method": method, "status": status, "agent": agent}
        yield at, fields, 0, 0, 0 if sent == "-" else int(sent)


def read_jsonl(lines, options):
    for line in filter(str.strip, lines):
        fields = json.loads(line)
        time = fields[options.time]
        at = instant(time) if isinstance(time, str) else round(time * 10**6)
        context, generated = fields.get("context_tokens", 0), fields.get("generated_tokens", 0)
        cost = fields[options.cost] if options.cost else context + generated
        yield at, fields, context, generated, cost


def read_trace(options):
    lines = pathlib.Path(options.trace).read_text(encoding="utf-8-sig").splitlines()
    if lines[0].startswith("{"):
        requests, key = read_jsonl(lines, options), "=all"
    elif lines[0].startswith("TIMESTAMP"):
        requests, key = read_azure(lines, options), "=all"
    else:
        requests, key = read_combined(lines, options), "ip"
    key = options.key or key
    requests = sorted(requests, key=lambda request: request[0])  # stable
    name = (lambda fields: key[1:]) if key.startswith("=") else (lambda fields: str(fields[key]))
    return [(at, name(fields), context, generated, cost) for at, fields, context, generated, cost in requests]


def read_policy(text):
    file, _, name = text.partition("#")
    policies = tomllib.loads(pathlib.Path(file).read_text())["policy"]
    return policies[name] if name else next(iter(policies.values()))


# -- limits, each with nothing in common with the engine's ---------------------


class Bucket:
    """Room is counted in 1/period of a unit, so that it grows by whole numbers.
    Every charge is remembered, with the room there was before it: when less was
    used than was taken, all that came since is played again without the rest."""

    def __init__(self, spec, amount):
        self.per, self.amount = micros(spec["per"]), amount
        self.burst = spec.get("burst", amount)
        self.postpaid = spec.get("postpaid", False)
        self.room, self.at = self.burst * self.per, None
        self.charges, self.place = [], {}

    def fits(self, now, amount):
        self.refill(now)
        least = 1 if self.postpaid else amount  # postpaid: while a unit is left
        return least * self.per <= self.room

    def refill(self, now):
        if self.at is not None:
            self.room = min(self.burst * self.per, self.room + self.amount * (now - self.at))
        self.at = now

    def charge(self, now, amount):
        self.refill(now)
        self.charges.append((now, amount, self.room))
        self.room -= amount * self.per

    def start(self, now, row, amount):
        self.place[row] = len(self.charges)
        self.charge(now, amount)

    def end(self, now, row, reserved, used):
        place = self.place.pop(row)
        if used > reserved:  # what nobody reserved is charged when it is known
            self.charge(now, used - reserved)
        elif used < reserved:
            self.again(place, used)
            self.refill(now)

    def again(self, place, used):
        """Plays everything from a charge on, of which only so much was used."""
        (self.at, _, self.room), since = self.charges[place], self.charges[place + 1 :]
        del self.charges[place:]
        for at, amount in [(self.at, used)] + [(at, amount) for at, amount, _ in since]:
            self.charge(at, amount)


class Window:
    """Fixed windows: of the epoch, of the first use, or of a calendar."""

    def __init__(self, spec, amount):
        self.spec, self.amount = spec, amount
        self.postpaid = spec.get("postpaid", False)
        self.zone = zone_of(spec["zone"]) if "zone" in spec else None
        self.begin = self.next = self.used = 0
        self.booked = {}

    def move(self, now):
        if not self.begin <= now < self.next:
            self.begin, self.next = self.around(now)
            self.used = 0

    def around(self, now):
        if self.zone:
            return calendar(self.spec["per"], self.zone, now)
        per = micros(self.spec["per"])
        begin = now if self.spec.get("algorithm") == "first_use_window" else now // per * per
        return begin, begin + per

    def fits(self, now, amount):
        if not self.begin <= now < self.next:
            return amount <= self.amount  # a new window, perhaps begun by this use
        return self.used < self.amount if self.postpaid else self.used + amount <= self.amount

    def start(self, now, row, amount):
        self.move(now)
        self.used += amount
        self.booked[row] = self.begin

    def end(self, now, row, reserved, used):
        if used > reserved:  # what nobody reserved is charged when it is known
            self.move(now)
            self.used += used - reserved
        elif self.booked[row] == self.begin and now < self.next:
            self.used += used - reserved


class Rolling:
    """Every window of the period's length, by adding up all of it."""

    def __init__(self, spec, amount):
        self.amount, self.per = amount, micros(spec["per"])
        self.postpaid = spec.get("postpaid", False)
        # A ring of sub-windows may keep an amount for one of them too long.
        ring = spec.get("algorithm") == "sliding_window"
        self.slack = -(-self.per // spec.get("sub_windows", 60)) if ring else 0
        self.times, self.taken, self.place = [], [], {}

    def sum(self, now, length):
        first = bisect.bisect_right(self.times, now - length)
        return sum(self.taken[first:])

    def fits(self, now, amount, length=None):
        used = self.sum(now, length or self.per)
        return used < self.amount if self.postpaid else used + amount <= self.amount

    def must_fit(self, now, amount):
        return self.fits(now, amount, self.per + self.slack)

    def start(self, now, row, amount):
        self.place[row] = len(self.times)
        self.times.append(now)
        self.taken.append(amount)

    def end(self, now, row, reserved, used):
        self.taken[self.place.pop(row)] = min(reserved, used)
        if used > reserved:  # what nobody reserved is charged when it is known
            self.times.append(now)
            self.taken.append(used - reserved)


class Slots:
    """What is held at once."""

    def __init__(self, spec, amount):
        self.amount, self.held = amount, 0

    def fits(self, now, amount):
        return self.held + amount <= self.amount

    def start(self, now, row, amount):
        self.held += amount

    def end(self, now, row, reserved, used):
        self.held -= reserved


class NoZone(Exception):
    """This machine does not know a time zone."""


def zone_of(name):
    if name == "UTC":
        return UTC
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except zoneinfo.ZoneInfoNotFoundError as error:
        raise NoZone(name) from error


def calendar(unit, zone, now):
    """The calendar's boundaries around an instant."""
    today = (EPOCH + now * MICROSECOND).astimezone(zone).date()
    day = datetime.timedelta(days=1)
    if unit == "week":
        first = today - today.weekday() * day
        last = first + 7 * day
    elif unit == "month":
        first = today.replace(day=1)
        last = (first + 31 * day).replace(day=1)
    else:
        first, last = today, today + day
    midnight = lambda date: (datetime.datetime(date.year, date.month, date.day, tzinfo=zone) - EPOCH) // MICROSECOND
    return midnight(first), midnight(last)


KINDS = ("calls", "rate", "budget", "concurrency")


class Limit:
    """A limit of the policy: its state for each key (or ancestor) that it is about."""

    def __init__(self, name, spec, levels):
        self.name, self.spec = name, spec
        self.kind = next(kind for kind in KINDS if kind in spec)
        self.amount = spec[self.kind]
        self.segments = levels.index(spec["level"]) + 1 if "level" in spec else None
        self.shadow = spec.get("shadow", False)
        self.states = {}
        self.model()(spec, self.amount)  # what it does not know, it says now

    def model(self):
        if self.kind == "concurrency":
            return Slots
        calendar = self.spec["per"] in ("day", "week", "month")
        usual = "fixed_window" if self.kind == "budget" or calendar else "token_bucket"
        algorithm = self.spec.get("algorithm", usual)
        if algorithm in ("sliding_window", "sliding_log"):
            return Rolling
        return Window if algorithm.endswith("_window") else Bucket

    def state(self, key):
        scope = "/".join(key.split("/")[: self.segments]) if self.segments else key
        if scope not in self.states:
            self.states[scope] = self.model()(self.spec, self.amount)
        return self.states[scope]


# -- checking -----------------------------------------------------------------


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def line(self, name, faults, counted):
        if faults:
            self.failed += 1
            print(f"FAILED {name}: {len(faults)} of {counted}")
            for fault in faults[:5]:
                print(f"         {fault}")
        else:
            self.passed += 1
            print(f"ok     {name}: {counted}")

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


class Row:
    """A line of the decisions."""

    def __init__(self, fields, limits):
        number = lambda name: int(fields[name]) if fields[name] else None
        self.number, self.key = int(fields["request"]), fields["key"]
        self.arrived, self.started, self.ended = map(number, ("arrived_us", "started_us", "ended_us"))
        self.outcome, self.binding = fields["outcome"], fields["binding_limit"]
        self.reserved = {limit.name: number(f"reserved.{limit.name}") for limit in limits}
        self.used = {limit.name: number(f"used.{limit.name}") for limit in limits}
        self.limits = limits

    def ran(self):
        return self.outcome != "refused"

    def empty(self):
        amounts = [*self.reserved.values(), *self.used.values()]
        return self.started is None and self.ended is None and set(amounts) <= {None}


def read_decisions(path, limits):
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        columns = ["request", "key", "arrived_us", "started_us", "ended_us", "outcome", "binding_limit"]
        columns += [column for limit in limits for column in (f"reserved.{limit.name}", f"used.{limit.name}")]
        assert reader.fieldnames == columns, f"columns are {reader.fieldnames}, not {columns}"
        return [Row(fields, limits) for fields in reader]


def service(options, generated):
    if "=" not in options.service:
        return 0 if options.service in ("0", "0s") else micros(options.service)
    parts = dict(part.split("=") for part in options.service.split(","))
    return micros(parts["ttft"]) + micros(parts.get("per_token", "0s")) * generated


def estimate(options, context, cost):
    if options.reserve == "total":
        return cost
    if options.reserve.startswith("context+"):
        return context + int(options.reserve[len("context+") :])
    return int(options.reserve)


def check_trace(rows, trace, limits, options, report):
    faults = [] if len(rows) == len(trace) else [f"{len(rows)} decisions for {len(trace)} requests"]
    for position, (row, (at, key, context, generated, cost)) in enumerate(zip(rows, trace)):
        expected = (position, at - trace[0][0], key)
        if (row.number, row.arrived, row.key) != expected:
            faults.append(f"request {row.number}: {(row.number, row.arrived, row.key)} is not {expected}")
        if not row.ran():
            continue
        if row.ended - row.started != service(options, generated):
            faults.append(f"request {row.number} took {row.ended - row.started} us")
        for limit in limits:
            one = limit.kind in ("calls", "concurrency")
            amounts = (1, 1) if one else (estimate(options, context, cost), cost)
            if (row.reserved[limit.name], row.used[limit.name]) != amounts:
                faults.append(f"request {row.number}: {limit.name} is not {amounts}")
    report.line("trace", faults, len(rows))


def check_outcomes(rows, limits, wait, report):
    names = {limit.name for limit in limits if not limit.shadow}

    def right(row):
        if row.outcome == "admitted":
            return row.started == row.arrived and row.binding == ""
        if row.outcome == "waited":
            return row.arrived < row.started <= row.arrived + wait and row.binding in names
        return row.outcome == "refused" and row.empty() and row.binding in names

    faults = [f"request {row.number}: {vars(row)}" for row in rows if not right(row)]
    report.line("outcome", faults, len(rows))


START, END, ASK, PROBE = 1, 0, 1, 2


def events(rows, wait):
    """What happens, in order: at one instant, ends before starts, and starts in
    the order of arrival; a probe looks at an instant when all of it is over."""
    for row in rows:
        if row.ran():
            yield row.started, START, row.number, "start", row
            if row.ended > row.started:
                yield row.ended, END, row.number, "end", row
        elif not wait:
            yield row.arrived, ASK, row.number, "ask", row
    for at, row in probes(rows, wait) if wait else ():
        yield at, PROBE, row.number, "probe", row


def left_queue(row, wait):
    return row.started if row.ran() else row.arrived + wait


def probes(rows, wait):
    """For each that waited, the last instant before it started (or gave up) at
    which it was the first of its key's queue: it must not have fitted then."""
    if any(limit.segments for row in rows[:1] for limit in row.limits):
        return
    ahead = {}
    for row in rows:
        first_at = max(row.arrived, ahead.get(row.key, 0))
        left = left_queue(row, wait)
        ahead[row.key] = max(ahead.get(row.key, 0), left)
        if row.outcome != "admitted" and first_at <= left - 1:
            yield left - 1, row


def check_order(rows, wait, report):
    faults, latest = [], {}
    for row in rows:
        before = latest.get(row.key)
        if row.ran() and before and row.started < left_queue(before, wait):
            faults.append(f"request {row.number} started before request {before.number} left the queue")
        if row.outcome != "admitted" and (not before or left_queue(row, wait) > left_queue(before, wait)):
            latest[row.key] = row
    report.line("order", faults, len(rows))


def run(rows, limits, start, wait):
    """Plays the decisions; what was wrong with each limit, with refusals and with waits."""
    binding = [limit for limit in limits if not limit.shadow]
    over = {limit.name: [] for limit in limits}
    refused, late = [], []
    counts = {"ask": 0, "probe": 0}
    for at, _, _, what, row in sorted(events(rows, wait), key=lambda event: event[:3]):
        now = start + at
        if what == "start":
            for limit in binding:
                if not limit.state(row.key).fits(now, row.reserved[limit.name]):
                    over[limit.name].append(f"request {row.number} at {at} had no room")
            for limit in limits:
                limit.state(row.key).start(now, row.number, row.reserved[limit.name])
            if row.ended == row.started:
                settle(limits, row, now)
        elif what == "end":
            settle(limits, row, now)
        else:
            counts[what] += 1
            without = [limit.name for limit in binding if not has_room(limit, row, now)]
            if what == "ask" and row.binding not in without:
                refused.append(f"request {row.number} at {at}: refused by {row.binding}, no room in {without or 'none'}")
            if what == "probe" and not without:
                late.append(f"request {row.number} had room at {at} already")
    return over, refused, late, counts


def settle(limits, row, now):
    for limit in limits:
        limit.state(row.key).end(now, row.number, row.reserved[limit.name], row.used[limit.name])


def has_room(limit, row, now):
    """Whether it would certainly have fitted."""
    state = limit.state(row.key)
    return getattr(state, "must_fit", state.fits)(now, row.wanted[limit.name])


def check_any_window(rows, limit, report):
    """In any window of length W at most burst + rate * W: the law, by itself."""
    per, burst = micros(limit.spec["per"]), limit.spec.get("burst", limit.amount)
    faults, sums = [], {}
    for row in sorted((row for row in rows if row.ran()), key=lambda row: (row.started, row.number)):
        state = limit.state(row.key)
        total, least = sums.get(id(state), (0, None))
        before = total * per - limit.amount * row.started
        least = before if least is None else min(least, before)
        total += row.used[limit.name]
        if total * per - limit.amount * row.started - least > burst * per:
            faults.append(f"a window that ends with request {row.number} was given too much")
        sums[id(state)] = (total, least)
    report.line(f"{limit.name}, any window", faults, len(rows))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("policy")
    parser.add_argument("decisions")
    parser.add_argument("--wait", default="")
    parser.add_argument("--reserve", default="total")
    parser.add_argument("--service", default="0s")
    parser.add_argument("--key", default="")
    parser.add_argument("--cost", default="")
    parser.add_argument("--time", default="time")
    return parser.parse_args()


def main():
    options, report = arguments(), Report()
    policy = read_policy(options.policy)
    levels = policy["key"].split("/") if "key" in policy else []
    try:
        limits = [Limit(name, spec, levels) for name, spec in policy["limits"].items()]
    except NoZone as error:
        print(f"cannot tell: this machine has no time zone {error} (install tzdata)")
        return 3
    wait = micros(options.wait) if options.wait else 0
    trace = read_trace(options)
    rows = read_decisions(options.decisions, limits)
    for row, (_, _, context, _, cost) in zip(rows, trace):
        one = {limit.name: limit.kind in ("calls", "concurrency") for limit in limits}
        row.wanted = {name: 1 if one[name] else estimate(options, context, cost) for name in one}
    check_trace(rows, trace, limits, options, report)
    check_outcomes(rows, limits, wait, report)
    over, refused, late, counts = run(rows, limits, trace[0][0], wait)
    for limit in limits:
        if not limit.shadow:
            report.line(limit.name, over[limit.name], sum(row.ran() for row in rows))
        if not limit.shadow and limit.model() is Bucket and options.reserve == "total" and "postpaid" not in limit.spec:
            check_any_window(rows, limit, report)
    if wait:
        if not any(limit.segments for limit in limits):
            check_order(rows, wait, report)
            report.line("exact", late, counts["probe"])
    else:
        report.line("refused", refused, counts["ask"])
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
