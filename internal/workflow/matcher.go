package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// matchers reads one matcher or a list of them.
func (d *decoder) matchers(n *node, key string) []Matcher {
	list := []Matcher{}
	for _, it := range n.each() {
		list = append(list, d.matcher(it, key)...)
	}
	return list
}

var matcherNames = []string{"network", "timeout", "server_error", "rate_limit", "circuit_open"}

func (d *decoder) matcher(n *node, key string) []Matcher {
	n = d.resolved(n)
	if n.tag == "!pattern" && n.scalar() {
		return d.patternMatcher(strings.TrimPrefix(n.tag, "!"), n)
	}
	if n.scalar() && n.kind != nullNode {
		name := snake(n.text)
		if m, ok := driver.MatcherByName(name); ok {
			return []Matcher{{Name: name, Match: m}}
		}
		p := d.errorf(n, "unknown-matcher", "%s has no matcher %q", key, short(n.text))
		if words := strings.FieldsFunc(n.text, func(r rune) bool { return r == ',' || r == ' ' }); len(words) > 1 && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(matcherNames, w) }) {
			p.Suggest("write [%s]", strings.Join(words, ", "))
			return nil
		}
		if text := matcherElsewhere(name); text != "" {
			p.Suggest("%s", text)
			return nil
		}
		if p.Near(name, matcherNames); p.Suggestion == "" && strings.Contains(strings.TrimSpace(n.text), " ") && !strings.Contains(n.text, "'") {
			p.Suggest("for a text in the output write {pattern: '%s'}", short(n.text))
		}
		p.Or("write one of %s, {pattern: '…'} or {exit_code: [1]}", strings.Join(matcherNames, ", "))
		return nil
	}
	o, ok := d.object(n, matcherTable)
	if !ok {
		return nil
	}
	defer o.close()
	var list []Matcher
	matcherTable.read(o, &list)
	if !slices.ContainsFunc(n.pairs, func(p pair) bool { return d.resolved(p.val).kind != nullNode }) {
		d.errorf(n, "unknown-matcher", "an empty matcher matches nothing").Suggest("write {pattern: '…'} or {exit_code: [1]}")
	}
	return list
}

// matcherElsewhere says what is written for what other programs retry on; "" where nothing
// is known. name is in snake case.
func matcherElsewhere(name string) string {
	code := strings.TrimSpace(strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(name, "exit"), "_code"), " _:="))
	switch n, err := strconv.Atoi(code); {
	case err == nil && n >= 0 && n <= 255:
		return fmt.Sprintf("for an exit status write {exit_code: [%d]}", n)
	case err == nil && n == 429:
		return "write rate_limit for the status of a server"
	case err == nil && n >= 500 && n <= 599 || name == "5xx":
		return "write server_error for the status of a server"
	}
	switch name {
	case "all", "any", "always", "*", "error", "errors", "exception", "failure", "true":
		return "leave it out: every error is retried"
	case "never", "none", "false":
		return "write attempts: 1"
	}
	for _, ending := range []string{"_error", "_exception"} {
		switch stem := strings.TrimSuffix(name, ending); {
		case stem == name:
		case stem == "connection" || stem == "connect" || stem == "dns" || stem == "io":
			return "write network"
		case strings.HasSuffix(stem, "timeout") || stem == "timed_out":
			return "write timeout"
		case stem == "rate_limit" || stem == "throttling" || stem == "too_many_requests":
			return "write rate_limit"
		}
	}
	return ""
}

func (d *decoder) patternMatcher(key string, n *node) []Matcher {
	n = d.resolved(n)
	if !n.scalar() {
		d.wrong(n, key, "a regular expression").Suggest("for example: {pattern: 'try again (later|soon)'}")
		return nil
	}
	m, err := retry.TextPattern(n.text)
	if syntax := errors.Unwrap(err); syntax != nil {
		d.badRegexp(n, key, syntax)
		return nil
	} else if err != nil {
		d.errorf(n, "bad-value", "%s", strings.TrimPrefix(err.Error(), "retry: ")).Suggest("for example: {pattern: 'try again (later|soon)'}; without a matcher, every error is retried")
		return nil
	}
	return []Matcher{{Name: key + ": " + n.text, Match: m}}
}

func (d *decoder) exitMatcher(key string, n *node) []Matcher {
	var codes []int
	var words []string
	list := n.each()
	if len(list) == 0 { // or it would be as if nothing were asked for, and every error retried
		d.errorf(n, "bad-value", "exit_code names no status").Suggest("for example: {exit_code: [75, 111]}")
	}
	for _, it := range list {
		c, p := d.integer(d.resolved(it), key, 0)
		switch {
		case p != nil:
			p.Or("for example: {exit_code: [75, 111]}")
		case c > 255:
			d.errorf(it, "out-of-range", "exit_code is %d; exit statuses go from 0 to 255", c).Suggest("for example: {exit_code: [75, 111]}")
		default:
			codes = append(codes, c)
			words = append(words, strconv.Itoa(c))
		}
	}
	if len(codes) == 0 {
		return nil
	}
	return []Matcher{{Name: fmt.Sprintf("%s: [%s]", key, strings.Join(words, ", ")), Match: retry.ExitCode(codes...)}}
}
