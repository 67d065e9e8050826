package template

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"path"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/value"
)

// result is a value on its way through the filters of a reference.
type result struct {
	v      any
	origin Origin
	raw    string // JSON text of v, where known
	sep    string // between the elements of a list of scalars; ", " if empty
	word   string // what |sh has quoted
}

func (r *result) text() string {
	switch v := r.v.(type) {
	case string:
		return v
	case []any:
		if !slices.ContainsFunc(v, func(e any) bool { return !value.IsScalar(e) }) {
			if r.sep != "" {
				return joinText(v, r.sep)
			}
			break
		}
		if r.raw != "" {
			return r.raw
		}
	case map[string]any:
		if r.raw != "" {
			return r.raw
		}
	}
	return value.Text(r.v)
}

// elements are the words of a list, or the one word of an object; nil for
// anything else.
func (r *result) elements() []string {
	switch v := r.v.(type) {
	case []any:
		words := make([]string, len(v))
		for i, e := range v {
			words[i] = value.Text(e)
		}
		return words
	case map[string]any:
		return []string{r.text()}
	}
	return nil
}

func joinText(list []any, sep string) string {
	parts := make([]string, len(list))
	for i, e := range list {
		parts[i] = value.Text(e)
	}
	return strings.Join(parts, sep)
}

// filter is one |name:arg.
type filter struct {
	name, arg string
	def       *Text // for default
	fn        filterFunc
}

type filterFunc func(r result, arg string) (result, error)

// resolve gives the value of a reference; known is false where its name is
// unknown and no default is in. A filter that fails, or is none, is an error.
func (r *reference) resolve(s Scope) (res result, known bool, err error) {
	v, known, err := r.head.lookup(s)
	if err == nil && !known && r.old != nil {
		if v, known, err = r.old.lookup(s); known && err == nil {
			res = result{v: v.V, origin: v.Origin, raw: v.Raw, sep: r.old.sep}
			for _, f := range r.old.modifiers {
				if res, err = f.fn(res, f.arg); err != nil {
					return res, true, r.errorf("%s", err)
				}
			}
			return r.finish(s, res, true)
		}
	}
	if err != nil {
		return res, known, r.errorf("%s", err)
	}
	if !known && r.hasDefault() && len(r.head.path) == 1 {
		v, known = s.Env(r.head.name)
	}
	return r.finish(s, result{v: v.V, origin: v.Origin, raw: v.Raw, sep: r.head.sep}, known)
}

// finish applies the filters and the default.
func (r *reference) finish(s Scope, res result, known bool) (result, bool, error) {
	if !known && !r.hasDefault() {
		return res, false, nil
	}
	if r.problem != "" {
		return res, true, &expr.SyntaxError{Message: fmt.Sprintf("%s: %s", r.src, r.problem), Suggestion: nearFilter(r.unknown)}
	}
	var err error
	for _, f := range r.filters {
		if f.def != nil {
			if res, err = orDefault(s, res, f.def); err != nil {
				return res, true, err
			}
			known = true
			continue
		}
		if !known {
			continue // the default that comes is what the later filters see
		}
		if res, err = f.fn(res, f.arg); err != nil {
			return res, true, r.errorf("%s: %s", f.name, err)
		}
	}
	if r.def != nil {
		if res, err = orDefault(s, res, r.def); err != nil {
			return res, true, err
		}
	}
	return res, true, nil
}

// nearFilter suggests the filter that a name may be meant to be.
func nearFilter(name string) string {
	if name == "" {
		return ""
	}
	return diag.DidYouMean(name, slices.Sorted(maps.Keys(filterFuncs)))
}

func (r *reference) errorf(format string, args ...any) error {
	return &expr.SyntaxError{Message: r.src + ": " + fmt.Sprintf(format, args...)}
}

// orDefault is the value, or the default where it is missing, null or empty.
func orDefault(s Scope, res result, def *Text) (result, error) {
	if res.v != nil && res.v != "" {
		return res, nil
	}
	if v, ok := def.Value(s); ok {
		return result{v: v.V, origin: v.Origin, raw: v.Raw}, nil
	}
	text, origin, err := def.ExpandOrigin(s)
	return result{v: text, origin: origin}, err
}

// filterFuncs are the filters by name. Filters:
//
//	json                     JSON text of the value
//	lines, newline           a list one element a line; a text as the list of its lines
//	comma, csv, join:SEP     a list joined with "," or SEP
//	glob:*.rs, pattern:*.rs  those elements of a list of file names that match
//	basename                 file names without their directories
//	default:TEXT             stands in for what is missing, null or empty
//	raw                      in a shell text, a URL or a JSON body, paste the value as it is: data becomes code
//	option                   in a shell text, the value may be an option of the command
//	sh                       the text quoted as one shell word, for a shell that is not ours
//	count, length, len       how many elements, keys or characters
//	sum, avg, average, mean, median, min, max, stddev, variance (of the whole population)
//	unique, flatten, sort, reverse, first, last, keys, values
//	lower, upper, trim
var filterFuncs = map[string]filterFunc{
	"json":     toJSON,
	"lines":    joinedBy("\n"),
	"newline":  joinedBy("\n"),
	"comma":    joinedBy(","),
	"csv":      joinedBy(","),
	"join":     func(r result, arg string) (result, error) { return r.join(unescape(unquote(arg))), nil },
	"glob":     glob,
	"pattern":  glob,
	"basename": basename,
	"default":  nil,
	"raw":      func(r result, _ string) (result, error) { r.origin = Trusted; return r, nil },
	"option":   func(r result, _ string) (result, error) { return r, nil },
	"sh":       shellWord,
	"count":    count,
	"length":   count,
	"len":      count,
	"sum":      sum,
	"avg":      numeric(mean),
	"average":  numeric(mean),
	"mean":     numeric(mean),
	"median":   numeric(median),
	"variance": numeric(variance),
	"stddev":   numeric(func(f []float64) float64 { return math.Sqrt(variance(f)) }),
	"min":      extreme(-1),
	"max":      extreme(+1),
	"unique":   onList(unique),
	"flatten":  onList(flatten),
	"sort": onList(func(l []any) []any {
		l = slices.Clone(l)
		slices.SortStableFunc(l, expr.Order)
		return l
	}),
	"reverse": onList(func(l []any) []any { l = slices.Clone(l); slices.Reverse(l); return l }),
	"first":   element(0),
	"last":    element(-1),
	"keys":    objectPart(func(m map[string]any, k string) any { return k }),
	"values":  objectPart(func(m map[string]any, k string) any { return m[k] }),
	"lower":   onText(strings.ToLower),
	"upper":   onText(strings.ToUpper),
	"trim":    onText(strings.TrimSpace),
}

func (r result) with(v any) result { return result{v: v, origin: r.origin, sep: r.sep} }

// list is the value as a list: a text is the list of its lines, or of its
// words where it is one line; null is empty, anything else is alone.
func (r result) list() []any {
	switch v := r.v.(type) {
	case nil:
		return nil
	case []any:
		return v
	case string:
		split := strings.Fields
		if strings.Contains(v, "\n") {
			split = func(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }
		}
		var list []any
		for _, s := range split(v) {
			list = append(list, s)
		}
		return list
	}
	return []any{r.v}
}

// join gives a list of scalars the separator sep.
func (r result) join(sep string) result {
	res := r.with(r.list())
	if res.sep = sep; sep == "" {
		return r.with(joinText(r.list(), ""))
	}
	return res
}

func joinedBy(sep string) filterFunc {
	return func(r result, _ string) (result, error) {
		if s, ok := r.v.(string); ok && sep == "\n" && !strings.Contains(s, "\n") && s != "" {
			r = r.with([]any{s}) // one line, blanks and all
		}
		return r.join(sep), nil
	}
}

func unescape(s string) string {
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(s)
}

func toJSON(r result, _ string) (result, error) {
	if r.raw != "" {
		return r.with(r.raw), nil
	}
	return r.with(value.JSON(r.v)), nil
}

func glob(r result, pattern string) (result, error) {
	var out []any
	for _, e := range r.list() {
		name := value.Text(e)
		ok, err := files.Match(pattern, name)
		if err != nil {
			return r, fmt.Errorf("%q is no pattern: %w", pattern, err)
		}
		if ok {
			out = append(out, e)
		}
	}
	if _, isText := r.v.(string); isText && r.sep == "" {
		r.sep = " " // as such lists of names were written
	}
	return r.with(out), nil
}

func basename(r result, _ string) (result, error) {
	var out []any
	for _, e := range r.list() {
		out = append(out, path.Base(value.Text(e)))
	}
	if _, isText := r.v.(string); isText && r.sep == "" {
		r.sep = " "
	}
	return r.with(out), nil
}

func count(r result, _ string) (result, error) {
	switch v := r.v.(type) {
	case nil:
		return r.with(int64(0)), nil
	case string:
		return r.with(int64(len([]rune(v)))), nil
	case map[string]any:
		return r.with(int64(len(v))), nil
	}
	return r.with(int64(len(r.list()))), nil
}

func sum(r result, _ string) (result, error) {
	total := new(big.Rat)
	for _, e := range r.list() {
		n, ok := value.Number(e)
		if !ok {
			return r, notANumber(e)
		}
		total.Add(total, n)
	}
	if total.IsInt() {
		return r.with(value.FromNumber(total.Num().String())), nil
	}
	f, _ := total.Float64()
	return r.with(f), nil
}

func notANumber(e any) error {
	return fmt.Errorf("%q is no number", diag.Clip(value.Text(e), 40))
}

func numeric(f func([]float64) float64) filterFunc {
	return func(r result, _ string) (result, error) {
		list := r.list()
		if len(list) == 0 {
			return r.with(nil), nil
		}
		nums := make([]float64, len(list))
		for i, e := range list {
			n, ok := value.Float(e)
			if !ok {
				return r, notANumber(e)
			}
			nums[i] = n
		}
		return r.with(plainNumber(f(nums))), nil
	}
}

// plainNumber is 2 for 2.0.
func plainNumber(f float64) any {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f)
	}
	return f
}

func mean(nums []float64) float64 {
	total := 0.0
	for _, n := range nums {
		total += n
	}
	return total / float64(len(nums))
}

func median(nums []float64) float64 {
	slices.Sort(nums)
	mid := len(nums) / 2
	if len(nums)%2 == 1 {
		return nums[mid]
	}
	return (nums[mid-1] + nums[mid]) / 2
}

func variance(nums []float64) float64 {
	m, total := mean(nums), 0.0
	for _, n := range nums {
		total += (n - m) * (n - m)
	}
	return total / float64(len(nums))
}

func extreme(sign int) filterFunc {
	return func(r result, _ string) (result, error) {
		list := r.list()
		if len(list) == 0 {
			return r.with(nil), nil
		}
		best := list[0]
		for _, e := range list[1:] {
			c, comparable := value.Compare(e, best)
			if !comparable {
				c = expr.Order(e, best)
			}
			if c*sign > 0 {
				best = e
			}
		}
		return r.with(best), nil
	}
}

func onList(f func([]any) []any) filterFunc {
	return func(r result, _ string) (result, error) { return r.with(f(r.list())), nil }
}

// unique keeps the first of each value that reads the same as JSON.
func unique(list []any) []any {
	seen := make(map[string]bool, len(list))
	var out []any
	for _, e := range list {
		if k := value.JSON(e); !seen[k] {
			seen[k] = true
			out = append(out, e)
		}
	}
	return out
}

func flatten(list []any) []any {
	var out []any
	for _, e := range list {
		if inner, ok := e.([]any); ok {
			out = append(out, flatten(inner)...)
		} else {
			out = append(out, e)
		}
	}
	return out
}

func element(i int) filterFunc {
	return func(r result, _ string) (result, error) {
		list := r.list()
		if len(list) == 0 {
			return r.with(nil), nil
		}
		return r.with(list[(i+len(list))%len(list)]), nil
	}
}

func objectPart(f func(map[string]any, string) any) filterFunc {
	return func(r result, _ string) (result, error) {
		m, ok := r.v.(map[string]any)
		if !ok {
			return r, fmt.Errorf("it is %s, not an object", value.Kind(r.v))
		}
		var out []any
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, f(m, k))
		}
		return r.with(out), nil
	}
}

func onText(f func(string) string) filterFunc {
	return func(r result, _ string) (result, error) {
		switch r.v.(type) {
		case string, json.Number, int64, float64, bool:
			return r.with(f(value.Text(r.v))), nil
		case []any:
			var out []any
			for _, e := range r.list() {
				out = append(out, f(value.Text(e)))
			}
			return r.with(out), nil
		}
		return r, nil
	}
}

func shellWord(r result, _ string) (result, error) {
	word := r.text()
	r = r.with(diag.ShellQuote(word))
	r.word = word
	return r, nil
}
