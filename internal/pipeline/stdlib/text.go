package stdlib

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

const (
	inString  = group("stdlib.string")
	inConvert = group("stdlib.convert")
)

// ConcatFunc is what + does with Strings.
var ConcatFunc = inString.fn("concat", "a followed by b", two(types.String), types.String, func(a []any) (any, error) {
	if len(str(a[0]))+len(str(a[1])) > MaxText {
		return fail("stdlib.concat", tooLong)
	}
	return str(a[0]) + str(a[1]), nil
})

// MaxText is the longest text, in bytes, that an expression makes of others.
const MaxText = 1 << 28

const tooLong = "The text would be longer than 256 MiB"

var value1 = params("value", types.String)

func stringFuncs() []*Func {
	return append([]*Func{
		ConcatFunc,
		inString.fn("string-length", "the number of UTF-16 units", value1, types.Int, func(a []any) (any, error) { return utf16Len(str(a[0])), nil }),
		inString.fn("join", "the elements with the separator between them", params("list", types.SeqOf(types.String), "separator", types.String), types.String, joinText),
		inString.fn("split", "the parts between the places where substring stands, empty ones too; the whole if substring is empty", params("value", types.String, "substring", types.String), strList, func(a []any) (any, error) {
			if str(a[1]) == "" {
				return texts([]string{str(a[0])}), nil
			}
			return texts(strings.Split(str(a[0]), str(a[1]))), nil
		}),
		inString.fn("contains", "whether substring is in it", params("value", types.String, "substring", types.String), types.Boolean, test(strings.Contains)),
		inString.fn("trim", "without blanks at both ends", value1, types.String, text1(strings.TrimSpace)),
		inString.fn("replace", "with every target replaced", params("value", types.String, "target", types.String, "replacement", types.String), types.String, replaceText),
	}, ours(
		inString.fn("char-count", "the number of characters", value1, types.Int, func(a []any) (any, error) { return int64(utf8.RuneCountInString(str(a[0]))), nil }),
		inString.fn("upper", "in capital letters", value1, types.String, text1(strings.ToUpper)),
		inString.fn("lower", "in small letters", value1, types.String, text1(strings.ToLower)),
		inString.fn("starts-with", "whether it begins with prefix", params("value", types.String, "prefix", types.String), types.Boolean, test(strings.HasPrefix)),
		inString.fn("ends-with", "whether it ends with suffix", params("value", types.String, "suffix", types.String), types.Boolean, test(strings.HasSuffix)),
		inString.fn("substring", "the characters from start up to, not including, end, counted from 0; what is outside is left out", params("value", types.String, "start", types.Int, "end", types.Int), types.String, substring),
		inString.fn("index-of", "where substring begins first, in characters from 0; none if nowhere", params("value", types.String, "substring", types.String), types.OptionalOf(types.Int), func(a []any) (any, error) {
			i := strings.Index(str(a[0]), str(a[1]))
			if i < 0 {
				return nil, nil
			}
			return int64(utf8.RuneCountInString(str(a[0])[:i])), nil
		}),
		inString.fn("lines", "its lines, without line ends", value1, strList, func(a []any) (any, error) { return texts(splitLines(str(a[0]))), nil }),
		inString.fn("words", "what stands between blanks", value1, strList, func(a []any) (any, error) { return texts(strings.Fields(str(a[0]))), nil }),
		inString.fn("matches", "whether the RE2 regular expression matches somewhere in it", params("value", types.String, "pattern", types.String), types.Boolean, matches),
		inString.fn("string-is-empty", "whether it has no characters", value1, types.Boolean, func(a []any) (any, error) { return str(a[0]) == "", nil }),
	)...)
}

func convertFuncs() []*Func {
	return append([]*Func{
		inConvert.fn("to-string", "the value as text, as in an interpolation", params("value", anyT), types.String, func(a []any) (any, error) { return Text(a[0]), nil }),
		inConvert.fn("to-int", "the number without its fraction", params("value", number), types.Int, toInt("stdlib.to-int", math.Trunc)),
		inConvert.fn("to-float", "the number as a Float", params("value", number), types.Float, func(a []any) (any, error) { return asFloat(a[0]), nil }),
	}, ours(
		inConvert.fn("parse-int", "the Int that the text spells; none if it spells none", value1, types.OptionalOf(types.Int), func(a []any) (any, error) {
			i, err := strconv.ParseInt(strings.TrimSpace(str(a[0])), 10, 64)
			if err != nil {
				return nil, nil // none is the answer
			}
			return i, nil
		}),
		inConvert.fn("parse-float", "the Float that the text spells; none if it spells none", value1, types.OptionalOf(types.Float), func(a []any) (any, error) {
			f, err := strconv.ParseFloat(strings.TrimSpace(str(a[0])), 64)
			if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
				return nil, nil
			}
			return f, nil
		}),
		inConvert.fn("to-json", "the value as compact JSON", params("value", anyT), types.String, func(a []any) (any, error) { return value.JSON(types.Encode(a[0])), nil }),
	)...)
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

func texts(ss []string) []any {
	return value.Map(ss, func(s string) any { return s })
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\r\n", "\n"), "\n")
}

func utf16Len(s string) int64 {
	n := int64(0)
	for _, r := range s {
		n += int64(max(utf16.RuneLen(r), 1))
	}
	return n
}

func text1(f func(string) string) func([]any) (any, error) {
	return func(a []any) (any, error) { return f(str(a[0])), nil }
}

func test(f func(a, b string) bool) func([]any) (any, error) {
	return func(a []any) (any, error) { return f(str(a[0]), str(a[1])), nil }
}

func joinText(a []any) (any, error) {
	list, _ := a[0].([]any)
	parts := make([]string, len(list))
	total := len(str(a[1])) * len(list)
	for i, e := range list {
		parts[i] = str(e)
		total += len(parts[i])
	}
	if total > MaxText {
		return fail("stdlib.join", tooLong)
	}
	return strings.Join(parts, str(a[1])), nil
}

func replaceText(a []any) (any, error) {
	s, target, with := str(a[0]), str(a[1]), str(a[2])
	if len(s)+strings.Count(s, target)*max(0, len(with)-len(target)) > MaxText {
		return fail("stdlib.replace", tooLong)
	}
	return strings.ReplaceAll(s, target, with), nil
}

func substring(a []any) (any, error) {
	chars := []rune(str(a[0]))
	start, _ := a[1].(int64)
	end, _ := a[2].(int64)
	n := int64(len(chars))
	start, end = min(max(start, 0), n), min(max(end, 0), n)
	return string(chars[start:max(start, end)]), nil
}

func matches(a []any) (any, error) {
	re, err := regexp.Compile(str(a[1]))
	if err != nil {
		return nil, &Error{"stdlib.matches", "The pattern is no regular expression: " + err.Error()}
	}
	return re.MatchString(str(a[0])), nil
}

// Text is a value inside an interpolated string: none is nothing, a Float always
// has a fraction or an exponent, a list is "[a, b]", a record or map
// "{a: 1, b: 2}" with its keys sorted.
func Text(v any) string {
	switch v := v.(type) {
	case []any, map[string]any:
		return string(appendText(nil, v))
	case float64:
		return value.Text(types.Encode(v))
	}
	return value.Text(v)
}
func appendText(b []byte, v any) []byte {
	switch v := v.(type) {
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendText(b, e)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(append(b, k...), ": "...)
			b = appendText(b, v[k])
		}
		return append(b, '}')
	}
	return append(b, Text(v)...)
}
