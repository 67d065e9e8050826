package cli

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/option"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newApp() (*app, *bytes.Buffer, *bytes.Buffer) {
	var out, errw bytes.Buffer
	return &app{streams: streams{in: strings.NewReader(""), out: &out, err: &errw}}, &out, &errw
}

// Every command says what it does, and shows it with an example.
func TestEveryCommandIsDocumented(t *testing.T) {
	a, _, _ := newApp()
	n := 0
	for _, c := range documented(a.root()) {
		n++
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s: short %q, %d bytes of long text, example %q", c.CommandPath(), c.Short, len(c.Long), c.Example)
		}
		if strings.HasSuffix(c.Short, ".") || len(c.Short) > 72 {
			t.Errorf("%s: the short text is to be a phrase without a full stop: %q", c.CommandPath(), c.Short)
		}
		// bide docs COMMAND has what its --help says.
		text := explained(strings.TrimPrefix(c.CommandPath(), "bide "))
		for _, said := range []string{c.Long, c.Example, c.UseLine()} {
			if c.HasParent() && !strings.Contains(text, strings.Trim(said, "\n")) {
				t.Errorf("bide docs %s lacks of its help: %s", c.CommandPath(), said)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s says nothing", c.CommandPath(), f.Name)
			}
		})
	}
	if n < 15 {
		t.Errorf("only %d commands were found", n)
	}
}

// word is a word of a command line, in quotes or not.
var word = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

// examples gives the command lines of bide in an example.
func examples(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		var words []string
		end := func() {
			if len(words) > 1 && words[0] == "bide" {
				out = append(out, words[1:])
			}
			words = nil
		}
		for _, w := range word.FindAllString(line, -1) {
			switch {
			case w == "&&" || w == "|" || w == "||" || w == ";":
				end()
			case w[0] == '\'' || w[0] == '"':
				words = append(words, w[1:len(w)-1])
			default:
				words = append(words, w)
			}
			if n := len(words); n > 1 && (words[n-2] == "<" || words[n-2] == ">") {
				words = words[:n-2]
			}
		}
		end()
	}
	return out
}

// Every example is a command line that bide understands: the command, its flags
// with their values, the number of its arguments.
func TestEveryExampleIsUnderstood(t *testing.T) {
	a, _, _ := newApp()
	for _, c := range documented(a.root()) {
		lines := examples(c.Example)
		if len(lines) == 0 {
			t.Errorf("%s: no example begins with bide: %q", c.CommandPath(), c.Example)
		}
		for _, line := range lines {
			fresh, _, _ := newApp()
			if err := understood(fresh.root(), line); err != nil {
				t.Errorf("%s: bide %s: %v", c.CommandPath(), strings.Join(line, " "), err)
			}
		}
	}
}

func understood(root *cobra.Command, line []string) error {
	cmd, rest, err := root.Find(line)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if !cmd.Runnable() {
		return errors.New("the command does nothing by itself")
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestExamplesFindsMistakes(t *testing.T) {
	a, _, _ := newApp()
	for _, line := range []string{"bide run --no-such-flag f.yml", "bide backoff --attempts many", "bide nothing", "bide explain"} {
		if err := understood(a.root(), examples(line)[0]); err == nil {
			t.Errorf("%s is understood", line)
		}
	}
}

// Policies are read as the help says: a value follows --jitter.
func TestJitterTakesAValue(t *testing.T) {
	var pf policyFlags
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	pf.register(&streams{}, fs, option.Exec)
	if err := fs.Parse([]string{"--jitter", "full", "--", "make"}); err != nil || !slices.Equal(pf.flag("jitter").texts, []string{"full"}) || !slices.Equal(fs.Args(), []string{"make"}) {
		t.Errorf("%v: jitter %q, arguments %q", err, pf.flag("jitter").texts, fs.Args())
	}
}

func TestManPages(t *testing.T) {
	a, out, _ := newApp()
	root := a.root()
	dir := filepath.Join(t.TempDir(), "man1")
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var pages bytes.Buffer
	for _, c := range documented(a.root()) {
		text, err := os.ReadFile(filepath.Join(dir, pageName(c)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		page := string(text)
		for _, want := range []string{".TH ", ".SH NAME\n" + roff(pageName(c)) + ` \- `, ".SH SYNOPSIS\n", ".SH SEE ALSO\n"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: %q is not in its page", c.CommandPath(), want)
			}
		}
		if got := strings.Contains(page, ".SH EXAMPLES\n"); got != (c.Example != "") {
			t.Errorf("%s: examples in its page: %v", c.CommandPath(), got)
		}
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if got := strings.Contains(page, `\fB\-\-`+roff(f.Name)+`\fR`); got == f.Hidden {
				t.Errorf("%s: --%s in the page: %v", c.CommandPath(), f.Name, got)
			}
		})
		checkRoff(t, c.CommandPath(), page)
		pages.WriteString(page)
	}
	if groff, err := exec.LookPath("groff"); err == nil { // the real formatter, where it is
		cmd := exec.Command(groff, "-man", "-Tutf8", "-ww")
		cmd.Stdin = &pages
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		if err := cmd.Run(); err != nil || complaints.Len() > 0 {
			t.Errorf("groff: %v: %s", err, &complaints)
		}
	}
	if !strings.Contains(out.String(), "manual pages in "+dir) {
		t.Errorf("it printed %q", out)
	}
}

var request = regexp.MustCompile(`^\.(TH|SH|TP|PP|RS|RE|nf|fi|br|B|BR)( |$)`)

// checkRoff says where a page has a request that we do not mean, or text in
// place of one.
func checkRoff(t *testing.T, what, page string) {
	t.Helper()
	for i, line := range strings.Split(page, "\n") {
		if (strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'")) && !request.MatchString(line) {
			t.Errorf("%s: line %d begins like a request: %q", what, i+1, line)
		}
	}
}

func TestRoffEscapes(t *testing.T) {
	for text, want := range map[string]string{
		".PP is text":   `\&.PP is text`,
		`a\b`:           `a\eb`,
		"--flag 'x' ~y": `\-\-flag \(aqx\(aq \(tiy`,
		"OTEL_…":        `OTEL_\[u2026]`,
		"'quoted'":      `\(aqquoted\(aq`,
	} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) is %q, want %q", text, got, want)
		}
	}
}

// TestCommandAlone: the command that a line names is the only one that is made
// for it, and goes by that name.
func TestCommandAlone(t *testing.T) {
	a := &app{}
	for _, c := range commandTable() {
		if made := a.commands([]string{c.name}); len(made) != 1 || made[0].Name() != c.name {
			t.Errorf("%s makes %d commands, the first is %s", c.name, len(made), made[0].Name())
		}
	}
	if none := a.commands([]string{"--version"}); len(none) != 0 {
		t.Errorf("--version makes %d commands", len(none))
	}
	if all := a.commands([]string{"no-such"}); len(all) != len(commandTable()) {
		t.Errorf("a word that is no command makes %d of %d commands", len(all), len(commandTable()))
	}
}

// The shell proposes of every flag with a value what fits, and where only a person can
// know it, nothing: names of files would be wrong.
func TestEveryFlagIsCompleted(t *testing.T) {
	a, _, _ := newApp()
	free := map[string]bool{}
	for _, c := range documented(a.root()) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal != "" || f.Hidden {
				return
			}
			if f.Name == "color" && c.HasParent() {
				return // that of the root
			}
			complete, ok := c.GetFlagCompletionFunc(f.Name)
			if !ok {
				t.Errorf("%s: --%s is not completed", c.CommandPath(), f.Name)
				return
			}
			command := strings.TrimPrefix(c.CommandPath(), "bide ")
			words := flagWords(command, f.Name)
			for _, w := range words {
				if list, _ := complete(c, nil, w); !slices.Contains(list, w) {
					t.Errorf("%s --%s %s proposes %q", c.CommandPath(), f.Name, w, list)
				}
				if !strings.Contains(f.Usage, w) && f.Name != "type" {
					t.Errorf("%s --%s does not say that it takes %s: %s", c.CommandPath(), f.Name, w, f.Usage)
				}
			}
			if words == nil && rowOf(command, f.Name) == nil && strings.HasPrefix(f.Value.Type(), "string") {
				free[f.Name] = true
			}
		})
	}
	// A new flag with a text belongs into flagRows, or here.
	known := []string{"args", "breaker", "command", "fallback", "host", "input", "job", "listen", "max-parallel", "older-than", "rule", "set", "store", "until"}
	if got := slices.Sorted(maps.Keys(free)); !slices.Equal(got, known) {
		t.Errorf("texts that nothing is proposed for: %q\nexpected %q", got, known)
	}
}
