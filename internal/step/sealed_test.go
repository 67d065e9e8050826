package step

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/failure"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/bide-dev/bide/retry/driver"
)

const secret = "hush-hush-hush"

// withSecret gives an executor that knows the secret, and texts in which it may stand.
func withSecret(t *testing.T) (*Executor, *rapid.Generator[string]) {
	t.Helper()
	f, problems := workflow.Parse("flow.yml", []byte("secrets: {S: "+secret+"}\ncommands: [{shell: 'true', on_failure: {shell: 'true'}}]\n"), workflow.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	env := environ.New(environ.Options{File: f})
	if err := env.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !env.Mask().Active() {
		t.Fatal("no secret is known")
	}
	return &Executor{File: f, Values: env}, rapid.Custom(func(t *rapid.T) string {
		piece := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{secret, "\xff", "\xed\xa0\x80", "�", "\x00", "~1/", "***", strings.Repeat("é", Brief)}),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		return piece.Draw(t, "a") + piece.Draw(t, "b") + piece.Draw(t, "c")
	})
}

// TestFailureIsReadAgain: a handler reads after a record of how its step failed what it would
// have read before it, the secrets too, and the record has no secret.
func TestFailureIsReadAgain(t *testing.T) {
	t.Parallel()
	x, text := withSecret(t)
	mask := x.Values.Mask()
	rapid.Check(t, func(t *rapid.T) {
		res := action.Result{Output: text.Draw(t, "output"), Stderr: text.Draw(t, "stderr"), ExitCode: rapid.IntRange(0, 255).Draw(t, "exit"), Duration: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "took"))}
		if rapid.Bool().Draw(t, "http") {
			res.Status, res.Header = 503, map[string]string{"Retry-After": "7"}
		}
		if rapid.Bool().Draw(t, "agent") {
			res.Usage, res.Session, res.StdoutFile = &action.Usage{InputTokens: 3, CostUSD: 0.25}, "s", "/logs/1"
		}
		f := &failure.Failure{Class: "exit", Message: text.Draw(t, "message"), Exit: res.ExitCode, Status: res.Status}
		want := Outcome{Status: event.Failed, Attempts: 2, Err: f, Result: res}
		d := x.failedData(x.File.Steps[0], &want, f, time.Now())
		record := Data(d)
		if sealed := string(record); mask.Text(sealed).String() != sealed {
			t.Fatalf("the record has the secret: %s", sealed)
		}
		got := x.lastFailure(&journal.StepRecord{Class: f.Class, Message: mask.Text(f.Message).Ends(Brief), Attempts: 2, Failed: record})
		if got.Err.Error() != f.Message || driver.Class(got.Err) != f.Class {
			t.Fatalf("the error is %q, want %q; the record is %s", got.Err, f.Message, record)
		}
		if got.Err = want.Err; !reflect.DeepEqual(got, &want) {
			t.Fatalf("it is read as\n%#v, want\n%#v; the record is %s", got, &want, record)
		}
	})
}

// TestSealedIsOpened: variables of any kind are after a record of them what they were, the
// secrets in them too, and the record has no secret.
func TestSealedIsOpened(t *testing.T) {
	t.Parallel()
	x, text := withSecret(t)
	number := rapid.Custom(func(t *rapid.T) any {
		return value.FromNumber(rapid.OneOf(rapid.SampledFrom([]string{"9007199254740993", "12345678901234567890", "1e400", "1.50", "0.1e1", "-0", "3.0"}),
			rapid.Map(rapid.Int64(), func(n int64) string { return fmt.Sprint(n) }),
			rapid.Map(rapid.Float64Range(-1e9, 1e9), func(n float64) string { return value.JSON(n) })).Draw(t, "number"))
	})
	var anything func(depth int) *rapid.Generator[any]
	anything = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			kind := rapid.IntRange(0, 6).Draw(t, "kind")
			if depth == 0 {
				kind %= 4
			}
			switch kind {
			case 0:
				return nil
			case 1:
				return rapid.Bool().Draw(t, "bool")
			case 2:
				return number.Draw(t, "number")
			case 3, 4:
				return text.Draw(t, "text")
			case 5:
				return rapid.SliceOfN(anything(depth-1), 0, 3).Draw(t, "list")
			}
			return rapid.MapOfN(rapid.StringMatching(`[a-z/~.]{1,3}`), anything(depth-1), 0, 3).Draw(t, "object")
		})
	}
	vars := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}|last`), anything(3), 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		set := vars.Draw(t, "variables")
		if _, is := set["last"]; is && rapid.Bool().Draw(t, "result") {
			last := map[string]any{"output": text.Draw(t, "output"), "exit_code": int64(0)}
			set["last"], set["shell"] = last, last
		}
		want := deepCopy(set)
		record := Data(x.Seal(set))
		if sealed := string(record); x.Values.Mask().Text(sealed).String() != sealed {
			t.Fatalf("the record has the secret: %s", sealed)
		}
		var s Sealed
		if err := json.Unmarshal(record, &s); err != nil {
			t.Fatal(err)
		}
		if got := x.Open(s); !reflect.DeepEqual(got, want) {
			t.Fatalf("opened is\n%#v, want\n%#v; the record is %s", got, want, record)
		}
	})
}

func deepCopy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = deepCopy(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = deepCopy(x)
		}
		return out
	}
	return v
}
