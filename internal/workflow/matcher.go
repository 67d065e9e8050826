package workflow

import (
	"errors"
	"fmt"
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
		if _, err := strconv.Atoi(n.text); err == nil {
			p.Suggest("for an exit status write {exit_code: [%s]}", n.text)
		}
		p.Near(name, matcherNames).Or("write one of %s, {pattern: '…'} or {exit_code: [1]}", strings.Join(matcherNames, ", "))
		return nil
	}
	o, ok := d.object(n, matcherTable)
	if !ok {
		return nil
	}
	defer o.close()
	var list []Matcher
	matcherTable.read(o, &list)
	if len(n.pairs) == 0 {
		d.errorf(n, "unknown-matcher", "an empty matcher matches nothing").Suggest("write {pattern: '…'} or {exit_code: [1]}")
	}
	return list
}

func (d *decoder) patternMatcher(key string, n *node) []Matcher {
	n = d.resolved(n)
	if !n.scalar() {
		d.wrong(n, key, "a regular expression").Suggest("for example: {pattern: 'try again (later|soon)'}")
		return nil
	}
	m, err := retry.TextPattern(n.text)
	if err != nil {
		d.badRegexp(n, key, errors.Unwrap(err))
		return nil
	}
	return []Matcher{{Name: key + ": " + n.text, Match: m}}
}

func (d *decoder) exitMatcher(key string, n *node) []Matcher {
	var codes []int
	var words []string
	for _, it := range n.each() {
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
