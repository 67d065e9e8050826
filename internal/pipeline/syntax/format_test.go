package syntax

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// TestFormatGolden formats the sources of testdata and compares the results
// with the files beside them.
func TestFormatGolden(t *testing.T) {
	names, err := filepath.Glob("testdata/*.cst")
	if err != nil || len(names) == 0 {
		t.Fatal("no sources", err)
	}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, list := Parse(name, src)
		if len(list) > 0 {
			t.Fatal(list)
		}
		golden := strings.TrimSuffix(name, ".cst") + ".golden"
		got := Format(f)
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestFormatSeeds(t *testing.T) {
	for _, src := range seedSources(t) {
		checkFormat(t, []byte(src))
	}
	for _, c := range errorCases(t) {
		checkFormat(t, []byte(c.src))
	}
}

func TestFormatLayout(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", ""},
		{"# only\n\n\n# comments", "# only\n\n# comments\n"},
		{"in a:Int out a", "in a: Int\nout a\n"},
		{"\n\nout a\n\n\n\nb=1#c", "out a\n\nb = 1 #c\n"},
		{"out a # x\n# y\n\n# z\nb = 1", "out a # x\n# y\n\n# z\nb = 1\n"},
		{"out a b = [ # one\n1,\n# two\n2 # three\n, ]", "out a\nb = [ # one\n  1,\n  # two\n  2 # three\n]\n"},
		{"out a b = c # why\n + d", "out a\nb = c # why\n  + d\n"},
		{"out a b = f(x) with # now\nretry: 3", "out a\nb = f(x) with # now\n  retry: 3\n"},
		{"out a b = f(x) with {retry: 3}", "out a\nb = f(x) with { retry: 3 }\n"},
		{"out a b = branch { c -> 1, # one\n d -> 2, # two\n# rest\notherwise -> 3 }", "out a\nb = branch {\n  c -> 1, # one\n  d -> 2, # two\n  # rest\n  otherwise -> 3\n}\n"},
		{"out a b = \"x ${ f( y ) }\"", "out a\nb = \"x ${f(y)}\"\n"},
		{"out a b = if (c) then then - 1 else 2", "out a\nb = if (c) then then - 1 else 2\n"},
		{"in a: (Int | String) + R | (B | C)\nout a", "in a: (Int | String) + R | (B | C)\nout a\n"},
		{"out a b = f(x) with retry_on: timeout, throttle: 5/min, jitter: true", "out a\nb = f(x) with retry_on: [timeout], throttle: 5/1min, jitter: factor\n"},
	} {
		src := c.src
		f, list := Parse("x.cst", []byte(src))
		if list.HasErrors() && src != "" && !strings.HasPrefix(src, "# only") {
			t.Fatalf("%s: %v", src, list)
		}
		f.faulty = false // the first two sources only lack an output
		if got := string(Format(f)); got != c.want {
			t.Errorf("%q\n got  %q\n want %q", src, got, c.want)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a", "\"\\\n\t\r", "${x}", "$x", "$$ {", "\\${", "é\x00"} {
		if got := parseOne(t, Quote(s)).(*StringLit).Value; got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func ExampleParse() {
	src := []byte("in id: String\nuser = Load(id) with retry: 3, timeout: 30\nout usr = user.name\n")
	_, problems := Parse("flow.cst", src)
	for _, p := range problems {
		fmt.Println(p.Error())
	}
	// Output:
	// flow.cst:2:41: error: the duration 30 has no unit [E024]; write "30ms" or "30s", or another of the units ms, s, m, h, d
}

func ExampleFormat() {
	f, _ := Parse("flow.cst", []byte("in xs:List[Int] # numbers\nout  sum = if xs.size>3 then xs|map(x=>x*2) else []"))
	fmt.Print(string(Format(f)))
	// Output:
	// in xs: List<Int> # numbers
	// out sum = if (xs.size > 3) xs | map((x) => x * 2) else []
}
