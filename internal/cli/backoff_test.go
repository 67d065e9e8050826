package cli_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/cli"
	"pgregory.net/rapid"
)

// bide runs a command line and gives what it printed and its exit status.
func bide(args ...string) (stdout, stderr string, status int) {
	var out, errw bytes.Buffer
	status = cli.Main(args, strings.NewReader(""), &out, &errw)
	return out.String(), errw.String(), status
}

type delaysOut struct {
	DelaysNS  []int64 `json:"delays_ns"`
	TotalNS   int64   `json:"total_ns"`
	StoppedBy string  `json:"stopped_by"`
}

func backoffJSON(t *testing.T, line string) delaysOut {
	t.Helper()
	out, errs, status := bide(append(strings.Fields("backoff --json"), strings.Fields(line)...)...)
	if status != 0 {
		t.Fatalf("bide backoff %s: status %d: %s", line, status, errs)
	}
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	var d delaysOut
	if err := dec.Decode(&d); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return d
}

// The worked rows of the specification, and the golden tables of pipelines
// (where `retry: N` is N+1 attempts).
func TestBackoffWorkedRows(t *testing.T) {
	thirty := func(n int) []float64 { return slices.Repeat([]float64{30}, n) }
	for _, tc := range []struct {
		flags string
		want  []float64 // seconds
	}{
		{"--backoff fixed --initial-delay 2s --attempts 4", []float64{2, 2, 2}},
		{"--backoff linear --initial-delay 1s --increment 2s --attempts 5", []float64{1, 3, 5, 7}},
		{"--backoff exponential --initial-delay 1s --attempts 8", []float64{1, 2, 4, 8, 16, 30, 30}},
		{"--backoff exponential --initial-delay 1s --base 3 --max-delay 60s --attempts 6", []float64{1, 3, 9, 27, 60}},
		{"--backoff fibonacci --initial-delay 1s --attempts 7", []float64{1, 1, 2, 3, 5, 8}},
		{"--backoff custom --delays 1s,3s,7s,15s --max-delay 60s --attempts 6", []float64{1, 3, 7, 15, 60}},
		{"--backoff custom --delays 500ms,1s,2s,5s,10s --attempts 7", []float64{.5, 1, 2, 5, 10, 30}},
		{"--backoff custom --attempts 4", []float64{30, 30, 30}},

		{"--backoff fixed --initial-delay 0s --attempts 4", []float64{0, 0, 0}},
		{"--backoff fixed --initial-delay 1s --attempts 4", []float64{1, 1, 1}},
		{"--backoff linear --initial-delay 1s --attempts 5", []float64{1, 2, 3, 4}},
		{"--backoff exponential --initial-delay 1s --attempts 6", []float64{1, 2, 4, 8, 16}},
		{"--backoff exponential --initial-delay 1s --attempts 11", append([]float64{1, 2, 4, 8, 16}, thirty(5)...)},
		{"--backoff exponential --initial-delay 500ms --attempts 6", []float64{.5, 1, 2, 4, 8}},
		{"--backoff linear --initial-delay 2s --attempts 6", []float64{2, 4, 6, 8, 10}},
		{"--backoff fixed --initial-delay 1m --max-delay 1h --attempts 3", []float64{60, 60}},
		{"--backoff exponential --initial-delay 1s --attempts 41", append([]float64{1, 2, 4, 8, 16}, thirty(35)...)},
		{"--backoff exponential --initial-delay 100ms --attempts 3", []float64{.1, .2}},
		{"--backoff fixed --initial-delay 50ms --attempts 2", []float64{.05}},
		{"--attempts 1", []float64{}},
		{"", []float64{1, 2}},
	} {
		t.Run(tc.flags, func(t *testing.T) {
			got := backoffJSON(t, tc.flags)
			want := delaysOut{DelaysNS: []int64{}, StoppedBy: "attempts"}
			for _, s := range tc.want {
				ns := int64(s * float64(time.Second))
				want.DelaysNS, want.TotalNS = append(want.DelaysNS, ns), want.TotalNS+ns
			}
			if !slices.Equal(got.DelaysNS, want.DelaysNS) || got.TotalNS != want.TotalNS || got.StoppedBy != want.StoppedBy {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestBackoffStopsAtTheBudget(t *testing.T) {
	got := backoffJSON(t, "--attempts 10 --budget 5s")
	if !slices.Equal(got.DelaysNS, []int64{1e9, 2e9}) || got.TotalNS != 3e9 || got.StoppedBy != "budget" {
		t.Errorf("with 1 2 4 and a budget of 5s the third failure must end it; got %+v", got)
	}
	if got := backoffJSON(t, "--attempts 3 --budget 3s"); got.StoppedBy != "attempts" {
		t.Errorf("a budget that is just enough stops by %s", got.StoppedBy)
	}
}

func TestBackoffJitter(t *testing.T) {
	for jitter, bounds := range map[string][2]float64{"factor": {.7, 1.3}, "true": {.7, 1.3}, "factor --jitter-factor 0.1": {.9, 1.1}, "full": {0, 1}, "equal": {.5, 1}} {
		line := "--backoff fixed --initial-delay 10s --attempts 200 --seed 5 --jitter " + jitter
		got := backoffJSON(t, line)
		least, greatest := slices.Min(got.DelaysNS), slices.Max(got.DelaysNS)
		lo, hi := bounds[0]*1e10, bounds[1]*1e10
		if float64(least) < lo || float64(greatest) > hi {
			t.Errorf("%s: delays from %v to %v, must be from %v to %v", jitter, least, greatest, lo, hi)
		}
		if spread := (hi - lo) / 10; float64(least) > lo+spread || float64(greatest) < hi-spread {
			t.Errorf("%s: 199 delays from %v to %v leave out an end of %v to %v", jitter, least, greatest, lo, hi)
		}
		if again := backoffJSON(t, line); !slices.Equal(got.DelaysNS, again.DelaysNS) {
			t.Errorf("%s: the same seed gave other delays", jitter)
		}
		if other := backoffJSON(t, strings.Replace(line, "--seed 5", "--seed 6", 1)); slices.Equal(got.DelaysNS, other.DelaysNS) {
			t.Errorf("%s: another seed gave the same delays", jitter)
		}
	}
	if got := backoffJSON(t, "--jitter decorrelated --initial-delay 1s --max-delay 20s --attempts 100 --seed 1"); slices.Min(got.DelaysNS) < 1e9 || slices.Max(got.DelaysNS) > 20e9 {
		t.Errorf("decorrelated delays leave [1s, 20s]: %v", got.DelaysNS)
	}
}

func TestBackoffSeveralStrategies(t *testing.T) {
	out, _, status := bide("backoff", "--backoff", "fixed,linear", "--attempts", "4", "--json")
	var got map[string]delaysOut
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 {
		t.Fatalf("%v, status %d: %s", err, status, out)
	}
	if len(got) != 2 || !slices.Equal(got["fixed"].DelaysNS, []int64{1e9, 1e9, 1e9}) || !slices.Equal(got["linear"].DelaysNS, []int64{1e9, 2e9, 3e9}) {
		t.Errorf("got %v", got)
	}
	out, _, _ = bide("backoff", "--backoff", "fixed,linear", "--attempts", "4")
	for _, want := range []string{"AFTER ATTEMPT  fixed  SUM  linear  SUM\n", "            3     1s   3s      3s   6s\n", "fixed: 4 attempts, 3s of waits\n", "linear: 4 attempts, 6s of waits\n", "a fixed", "b linear"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestBackoffTableAndPlot(t *testing.T) {
	out, errs, status := bide("backoff", "--attempts", "5", "--max-delay", "8s")
	want := `AFTER ATTEMPT  DELAY  SUM
            1     1s   1s
            2     2s   3s
            3     4s   7s
            4     8s  15s

5 attempts, 15s of waits

8s ┤                      ██████
   │                      ██████
   │                      ██████
6s ┤                      ██████
   │                      ██████
   │                      ██████
4s ┤               ██████ ██████
   │               ██████ ██████
   │               ██████ ██████
2s ┤        ██████ ██████ ██████
   │ ▄▄▄▄▄▄ ██████ ██████ ██████
   │ ██████ ██████ ██████ ██████
   └────────────────────────────
       1      2      3      4
     delay after failed attempt n
`
	if out != want || errs != "" || status != 0 {
		t.Errorf("status %d, stderr %q, got\n%s\nwant\n%s", status, errs, out, want)
	}
}

func TestBackoffShowsRanges(t *testing.T) {
	out, _, _ := bide("backoff", "--attempts", "3", "--jitter", "equal", "--seed", "1")
	for _, want := range []string{"DRAWN FROM", "500ms – 1s\n", "1s – 2s\n", "▒ at most", "━ drawn"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// However many attempts there are, no line is wider than the terminal and the
// table stays readable.
func TestBackoffManyAttempts(t *testing.T) {
	for _, n := range []string{"80", "100000"} {
		out, _, status := bide("backoff", "--backoff", "fixed,exponential,fibonacci", "--jitter", "full", "--attempts", n)
		lines := strings.Split(out, "\n")
		if status != 0 || len(lines) > 90 {
			t.Errorf("%s attempts: status %d, %d lines", n, status, len(lines))
		}
		plot := lines[slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "┤") }):]
		for _, l := range plot[:len(plot)-2] { // the legend may be longer
			if w := len([]rune(l)); w > 80 {
				t.Errorf("%s attempts: a line of %d columns: %q", n, w, l)
			}
		}
	}
}

func TestBackoffColours(t *testing.T) {
	plain, _, _ := bide("backoff", "--backoff", "fixed,linear")
	coloured, _, _ := bide("backoff", "--backoff", "fixed,linear", "--color", "always")
	if strings.Contains(plain, "\x1b[") {
		t.Error("there are colours where there is no terminal")
	}
	if !strings.Contains(coloured, "\x1b[34m") || !strings.Contains(coloured, "\x1b[33m") {
		t.Errorf("the strategies have no colours of their own: %q", coloured)
	}
}

func TestBackoffSVG(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.svg")
	_, errs, status := bide("backoff", "--backoff", "fixed,exponential", "--jitter", "full", "--seed", "1", "--attempts", "6", "--svg", path)
	if status != 0 {
		t.Fatal(errs)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	marks := map[string]int{}
	dec := xml.NewDecoder(bytes.NewReader(text))
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("no well-formed XML: %v", err)
		}
		if e, ok := tok.(xml.StartElement); ok {
			marks[e.Name.Local]++
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
				}
				if a.Name.Local == "href" || a.Name.Local == "src" {
					t.Errorf("the drawing refers to %q outside itself", a.Value)
				}
			}
		}
	}
	// Of each strategy a curve, a band of its jitter, 5 marks on the curve and 6 in
	// time.
	if marks["polyline"] != 2 || marks["polygon"] != 2 || marks["circle"] != 2*(5+6) {
		t.Errorf("elements: %v", marks)
	}
	for _, want := range []string{"prefers-color-scheme: dark", ">fixed, ", ">exponential, ", ">delay after failed attempt n<"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in the drawing", want)
		}
	}
}

func TestBackoffRefuses(t *testing.T) {
	for flags, want := range map[string][]string{
		"--attempts 0":          {"--attempts is 0; it must be 1 or more; it counts all runs"},
		"--attempts 1000001":    {"at most 1000000"},
		"--backoff quadratic":   {`there is no backoff "quadratic"`, "fibonacci"},
		"--backoff fixed,fixed": {"twice"},
		"--initial-delay soon --max-delay -3s --budget 0s": {"--initial-delay", "--max-delay"},
		"--budget 0s":                           {"--budget is 0"},
		"--jitter some":                         {"--jitter", "decorrelated"},
		"--base 0.5":                            {"--base is 0.5"},
		"--base 3 --backoff fixed":              {"--base is of the strategy exponential; here it is fixed"},
		"--delays 1s":                           {"--delays is of the strategy custom"},
		"--increment 1s":                        {"--increment is of the strategy linear"},
		"--jitter-factor 0.2 --jitter full":     {"--jitter-factor is of --jitter factor; here it is full"},
		"--jitter factor --jitter-factor 2":     {"between 0 and 1"},
		"--svg /nonexistent/directory/p.svg":    {"writing the plot"},
		"extra":                                 {"extra"},
		"--backoff=":                            {"the strategy is empty"},
		"--backoff custom --delays 1s,nonsense": {"--delays"},
		"--attempts 0 --jitter some --base NaN": {"--attempts", "--jitter", "--base"},
	} {
		out, errs, status := bide(append([]string{"backoff"}, strings.Fields(flags)...)...)
		if wantStatus := map[bool]int{true: 1, false: 2}[strings.HasPrefix(flags, "--svg")]; status != wantStatus || out != "" {
			t.Errorf("%s: status %d, output %q", flags, status, out)
		}
		for _, w := range want {
			if !strings.Contains(errs, w) {
				t.Errorf("%s: %q is not in %q", flags, w, errs)
			}
		}
	}
}

func TestBackoffAnyFlags(t *testing.T) {
	strategies := rapid.SampledFrom([]string{"exponential", "fixed", "linear", "fibonacci", "custom", "fixed,linear", "cubic", ""})
	spans := rapid.OneOf(rapid.SampledFrom([]string{"0s", "1s", "30s", "9999999d", "1", "-1s", "1 second"}), rapid.String())
	jitters := rapid.OneOf(rapid.SampledFrom([]string{"none", "factor", "full", "equal", "decorrelated", "true"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		args := []string{"backoff", "--backoff=" + strategies.Draw(t, "strategy"), "--initial-delay=" + spans.Draw(t, "initial"),
			"--max-delay=" + spans.Draw(t, "max"), "--jitter=" + jitters.Draw(t, "jitter"),
			"--attempts=" + fmt.Sprint(rapid.IntRange(-2, 3000).Draw(t, "attempts")), "--seed=" + fmt.Sprint(rapid.Uint64().Draw(t, "seed"))}
		if rapid.Bool().Draw(t, "with base") {
			args = append(args, "--base="+fmt.Sprint(rapid.Float64().Draw(t, "base")))
		}
		out, errs, status := bide(args...)
		if status != 0 && status != 2 || status == 2 && errs == "" || status == 0 && out == "" {
			t.Fatalf("%q: status %d, stdout %q, stderr %q", args, status, out, errs)
		}
	})
}
