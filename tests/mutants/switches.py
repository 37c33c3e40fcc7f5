"""Writes mutants of cargo-mutants into a Rust file, each behind a switch of its own.

In: the text of the file and its mutants, as `cargo mutants --list --json` has them. Out: the text
with all of them in it, off until `crate::mutants::on` says otherwise, and why some are not.

Only what a mutant is about is parsed: from an operator its operands are looked for, to both sides,
by how tightly Rust binds. Each mutant's own text stands between marks (`/*<17*/ … /*>*/`), and each
stretch that was written anew, too (`/*[17,18*/ … /*]*/`), so that an error of the compiler names
the mutant that is to blame.
"""
import re

# Rust binds tighter with a higher number; what is missing ends an operand.
BINDS = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "|": 4, "^": 5,
         "&": 6, "<<": 7, ">>": 7, "+": 8, "-": 8, "*": 9, "/": 9, "%": 9, "as": 10}
PREFIX = {"!", "-", "*", "&", "&&", "mut"}
KEYWORDS = {"as", "break", "else", "for", "if", "in", "let", "loop", "match", "move", "mut", "ref",
            "return", "while", "fn", "where", "unsafe"}
PAIRS = {"(": ")", "[": "]", "{": "}"}
TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<literal>b?r(?P<fence>\#*)".*?"(?P=fence)|b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\]|\\[^\n]+?)'
      |\d[\w]*(?:\.\d\w*)?)
  | (?P<name>'?[A-Za-z_]\w*)
  | (?P<sign><<=|>>=|\.\.\.|\.\.=|&&|\|\||==|!=|<=|>=|=>|->|::|\.\.|<<|>>|[-+*/%^&|]=|.)
""", re.X | re.S)


class NotSwitchable(Exception):
    """The mutant has no form that a switch could turn on."""


class Source:
    """A file as tokens, each with its place, and for each bracket the place of its other half."""

    def __init__(self, text):
        self.text = text
        self.lines = [0] + [found.end() for found in re.finditer("\n", text)]
        self.tokens, self.starts, self.other, open_ = [], {}, {}, []
        for found in TOKEN.finditer(text):
            if found.lastgroup == "skip":
                continue
            word, index = found.group(), len(self.tokens)
            kind = found.lastgroup if found.lastgroup != "fence" else "literal"
            if kind == "sign" and word in PAIRS:
                open_.append(index)
            elif kind == "sign" and word in PAIRS.values():
                self.other[index] = open_.pop()
                self.other[self.other[index]] = index
            self.starts[found.start()] = index
            self.tokens.append((word, found.start(), found.end(), kind))

    def offset(self, place):
        """Columns count characters, from 1."""
        return self.lines[place["line"] - 1] + place["column"] - 1

    def word(self, index):
        return self.tokens[index][0] if 0 <= index < len(self.tokens) else ""

    def ends_operand(self, index):
        word, _, _, kind = self.tokens[index]
        if kind == "name":
            return word not in KEYWORDS and not word.startswith("'")
        return kind == "literal" or word in (")", "]", "}", "?")

    def turbofish(self, index):
        """Of a `>` that closes `::<…>`, the place of its `::`."""
        depth = 0
        while index >= 0:
            word = self.word(index)
            depth += word.count(">") if word in (">", ">>") else -1 if word == "<" else 0
            if depth == 0:
                return index - 1 if self.word(index - 1) == "::" else None
            if word in (";", "{", "}"):
                return None
            index = self.other[index] - 1 if word in (")", "]") else index - 1
        return None

    def left(self, operator, binds):
        """Where the left operand of the operator begins."""
        index = operator - 1
        while True:
            index = self.atom_before(index)
            before = self.word(index - 1)
            while before in PREFIX and not (before != "!" and self.ends_before(index - 1)):
                index, before = index - 1, self.word(index - 2)
            if BINDS.get(before, 0) < binds or before == "|" or not self.ends_before(index - 1):
                break
            index -= 2
        if before == "=":
            self.refuse_let_chain(index - 1)
        return index

    def ends_before(self, index):
        """Whether what stands before could be an operand; a block there is a statement."""
        return index > 0 and self.ends_operand(index - 1) and self.word(index - 1) != "}"

    def atom_before(self, index):
        """Where the operand without prefixes that ends here begins: `a.b(c)?[d]`."""
        while True:
            word, _, _, kind = self.tokens[index]
            if word == "?":
                index -= 1
                continue
            if kind == "sign" and word in ")]":
                index = self.other[index]
                before = self.word(index - 1)
                if before in (">", ">>") and (fish := self.turbofish(index - 1)) is not None:
                    index = fish - 1
                    continue
                if before == "!" and self.tokens[index - 2][3] == "name":
                    index -= 2
                    continue
                if index and self.ends_operand(index - 1) and before != "}":
                    index -= 1
                    continue
            elif kind not in ("name", "literal") or word in KEYWORDS:
                raise NotSwitchable(f"an operand that ends with {word}")
            if self.word(index - 1) in (".", "::"):
                index -= 2
                continue
            return index

    def refuse_let_chain(self, index):
        while self.word(index) != "let":
            if index < 0 or self.word(index) in (";", "{"):
                return
            index = self.other.get(index, index) - 1
        if self.word(index - 1) in ("if", "while", "&&"):
            raise NotSwitchable("an operand that is a let")

    def right(self, operator, binds):
        """Where the right operand of the operator ends."""
        bare = self.is_condition(operator)
        index = operator + 1
        while True:
            while self.word(index) in PREFIX:
                index += 1
            index = self.atom_after(index, bare)
            if BINDS.get(self.word(index), 0) <= binds:
                return index
            index += 1

    def atom_after(self, index, bare):
        word, _, _, kind = self.tokens[index]
        if word in ("if", "match"):
            while self.word(index) != "{":
                index = self.other.get(index, index) + 1
            index = self.other[index] + 1
            if self.word(index) == "else":
                raise NotSwitchable("an operand with an else")
        elif word in PAIRS:
            index = self.other[index] + 1
        elif kind == "sign" or word in KEYWORDS:
            raise NotSwitchable(f"an operand that begins with {word}")
        else:
            index += 1
        while True:
            word = self.word(index)
            if word in (".", "::"):
                index += 1
                if self.word(index) == "<":
                    depth = 0
                    while True:
                        sign = self.word(index)
                        depth += 1 if sign == "<" else -len(sign) if sign in (">", ">>") else 0
                        index += 1
                        if depth <= 0:
                            break
                else:
                    index += 1
            elif word == "!" and self.word(index + 1) in PAIRS:
                index = self.other[index + 1] + 1
            elif word in ("(", "["):
                index = self.other[index] + 1
            elif word == "{" and not bare and self.tokens[index - 1][3] == "name":
                index = self.other[index] + 1
            elif word == "?":
                index += 1
            else:
                return index

    def is_condition(self, index):
        """Whether this is the condition of an `if`: a brace after a name begins its block."""
        while index >= 0 and self.word(index) not in (";", "{", "(", "[", "}", ",", "=>"):
            if self.word(index) in ("if", "while", "match", "in"):
                return True
            index = self.other.get(index, index) - 1
        return False


class Site:
    """A stretch of the source that is written anew, and what is written there."""

    def __init__(self, start, end, rank, write):
        self.start, self.end, self.rank, self.write = start, end, rank, write
        self.mutants = []


def on(mutant):
    return f"crate::mutants::on({mutant['number']})"


def marked(mutant, text):
    """Says in the source where the mutant's own text is: what does not compile there is its."""
    return f"/*<{mutant['number']}*/{text}/*>*/"


def chosen(site, variant, plain):
    """`if on(1) { … } else if on(2) { … } else { as it is }`"""
    cases = [f"if {on(it)} {{ {marked(it, variant(it['replacement']))} }} else "
             for it in site.mutants]
    return "".join(cases) + f"{{ {plain} }}"


def binary(source, operator):
    word, start, end, _ = source.tokens[operator]
    if word.endswith("=") and word not in BINDS:
        left = source.atom_before(operator - 1)
        while source.word(left - 1) == "*":
            left -= 1
        right = operator + 1
        while source.word(right) not in (";", "}", ","):
            right = source.other.get(right, right) + 1
    else:
        left, right = source.left(operator, BINDS[word]), source.right(operator, BINDS[word])
    span = source.tokens[left][1], source.tokens[right - 1][2]

    def write(site, render):
        a, b = render(span[0], start), render(end, span[1])
        if word in ("&&", "||"):
            ends = "==" if word == "&&" else "!="
            return f"({{ let left: bool = {a}; if left {ends} {on(site.mutants[0])} " \
                   f"{{ left }} else {{ {b} }} }})"
        if word in ("==", "!="):
            return f"(({a} {word} {b}) != {on(site.mutants[0])})"
        if word in BINDS:
            hold = "&" if BINDS[word] == 3 else ""
            apply = lambda sign: f"left {sign} right"
            return f"(match ({hold}({a}), {hold}({b})) {{ (left, right) => " \
                   f"{chosen(site, apply, apply(word))} }})"
        return chosen(site, lambda sign: f"{a} {sign} {b};", f"{a} {word} {b};")

    return Site(*span, 4, write)


def unary(source, operator):
    word, start, end, _ = source.tokens[operator]
    right = operator + 1
    while source.word(right) in PREFIX:
        right += 1
    last = source.atom_after(right, source.is_condition(operator))
    span_end = source.tokens[last - 1][2]

    def write(site, render):
        inner = render(end, span_end)
        if word == "!":
            return f"(({inner}) == {on(site.mutants[0])})"
        return "(" + chosen(site, lambda _: inner, word + inner) + ")"

    return Site(start, span_end, 4, write)


def body(start, end):
    def write(site, render):
        cases = [f"if {on(it)} {{ {marked(it, 'return ' + it['replacement'])}; }} "
                 for it in site.mutants]
        return "".join(cases) + render(start, end)

    return Site(start, end, 0, write)


def guard(start, end):
    def write(site, render):
        text = f"({render(start, end)})"
        for it in site.mutants:
            text = f"({on(it)} || {text})" if it["replacement"] == "true" else \
                   f"(!{on(it)} && {text})"
        return text

    return Site(start, end, 1, write)


def field(source, start, end):
    """A field that is not written comes from the rest: `..rest`."""
    index = source.starts[start]
    name = source.word(index)
    short = source.word(index + 1) != ":"
    value = start if short else source.tokens[index + 2][1]
    end -= source.text[start:end].endswith(",")
    while source.word(index) != "..":
        if source.word(index) in ("}", ""):
            raise NotSwitchable("a struct without a rest")
        index = source.other.get(index, index) + 1
    close = index
    while source.word(close) != "}":
        close = source.other.get(close, close) + 1
    rest = source.text[source.tokens[index][2]:source.tokens[close][1]].strip().rstrip(",")

    def write(site, render):
        plain = render(value, end)
        return (f"{name}: " if short else "") + chosen(site, lambda _: f"({rest}).{name}", plain)

    return Site(value, end, 2, write)


def site_of(source, mutant):
    genre = mutant["genre"]
    start, end = (source.offset(mutant["span"][side]) for side in ("start", "end"))
    if genre == "FnValue":
        return body(start, end)
    if genre == "MatchArmGuard":
        return guard(start, end)
    if genre == "MatchArm":
        raise NotSwitchable("an arm")
    if genre == "StructField":
        return field(source, start, end)
    return (binary if genre == "BinaryOperator" else unary)(source, source.starts[start])


def rewritten(text, mutants):
    """The file with every mutant in it that has a form for it; the others, with why not."""
    source, sites, refused = Source(text), {}, {}
    for mutant in mutants:
        try:
            site = site_of(source, mutant)
        except NotSwitchable as why:
            refused[mutant["number"]] = str(why)
            continue
        known = sites.setdefault((site.start, site.end, site.rank), site)
        known.mutants.append(mutant)
    order = sorted(sites.values(), key=lambda site: (site.start, -site.end, site.rank))

    def render(start, end, inside=None):
        first = 0 if inside is None else order.index(inside) + 1
        out, at = [], start
        for site in order[first:]:
            if site.start < at or site.start >= end and not site.start == site.end == end:
                continue
            if site.end > end:
                raise ValueError(f"{site.mutants[0]['name']}: operands overlap")
            numbers = ",".join(str(it["number"]) for it in site.mutants)
            inner = lambda a, b, site=site: render(a, b, site)
            out += [text[at:site.start], f"/*[{numbers}*/", site.write(site, inner), "/*]*/"]
            at = site.end
        return "".join(out) + text[at:end]

    return render(0, len(text)), refused
