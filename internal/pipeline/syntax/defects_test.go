package syntax

import (
	"testing"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/duration"
)

// TestDefects holds a case for each known defect of the original's parser; the
// numbers are those of ../DEFECTS.md.
func TestDefects(t *testing.T) {
	t.Run("R11 words that begin with an infix keyword", func(t *testing.T) {
		src := "use lib\nassets = a\norders = f(b)\nandy = orders\nwhenever = g(andy)\nwithin = h()\nwithout = within\nout within"
		f, list := Parse("x.cst", []byte(src))
		if list.HasErrors() || len(f.Decls) != 8 {
			t.Fatalf("%d declarations, %v", len(f.Decls), list)
		}
	})
	t.Run("R12 reserved parts of a dotted name are kept", func(t *testing.T) {
		if got := shape(parseOne(t, "stdlib.in.foo(1)")); got != "(stdlib.in.foo 1)" {
			t.Fatal(got)
		}
	})
	t.Run("R13 numbers out of range are errors", func(t *testing.T) {
		for _, src := range []string{"99999999999999999999", "f(x) with retry: 99999999999999999999", "f(x) with timeout: 99999999999999999999s",
			"f(x) with throttle: 99999999999999999999/1s", "f(x) with priority: -99999999999999999999"} {
			_, list := Parse("x.cst", []byte("v = "+src+"\nout v"))
			if n, _ := list.Count(); n != 1 {
				t.Errorf("%s: %v", src, list)
			}
		}
	})
	t.Run("R14 words of options end where names end", func(t *testing.T) {
		f, list := Parse("x.cst", []byte("v = f(x) with backoff: fixed z = 3 out v"))
		if list.HasErrors() || len(f.Decls) != 3 {
			t.Fatalf("%d declarations, %v", len(f.Decls), list)
		}
		_, list = Parse("x.cst", []byte("v = f(x) with backoff: fixedz = 3 out v"))
		if !list.HasErrors() {
			t.Fatal(`"fixedz" was read as "fixed"`)
		}
	})
	t.Run("R13 a file is not lost with one number", func(t *testing.T) {
		f, list := Parse("x.cst", []byte("v = 99999999999999999999\nw = f(v)\nout w"))
		if n, _ := list.Count(); n != 1 || len(f.Decls) != 3 || list[0].Line != 1 || list[0].Column != 5 || list[0].EndColumn != 25 {
			t.Fatalf("%d declarations, %+v", len(f.Decls), list)
		}
	})
	t.Run("R16 every error has a code and a place", func(t *testing.T) {
		for _, src := range []string{"", "in x Int out x", "x = f(1,, 2) out x", "x = \"${\" out x", "out x with", "@example in x: Int out x", "x = (a, b) -> a out x",
			"x = match y { Some(v) -> v } out x", "type in = Int out x", "policy = retry: 1 out x", "x = a ++ b out x", "x = \"\\q\" out x"} {
			_, list := Parse("x.cst", []byte(src))
			if !list.HasErrors() {
				t.Errorf("%q is accepted", src)
			}
			for _, p := range list {
				if p.Code == "" || p.Message == "" || p.Line < 1 || p.Column < 1 {
					t.Errorf("%q: %+v", src, p)
				}
			}
		}
	})
	t.Run("the place of an error is its own, not the call's", func(t *testing.T) {
		_, list := Parse("x.cst", []byte("v = f(a,\n  g(b, 3x))\nout v"))
		want := diag.Pos{File: "x.cst", Line: 2, Column: 8}
		if len(list) != 1 || list[0].Pos != want || list[0].EndColumn != 10 {
			t.Fatalf("%+v", list)
		}
	})
	t.Run("several errors a file", func(t *testing.T) {
		_, list := Parse("x.cst", []byte("a = )\nb = f(\nc = 3x\nd = g(y) with timeout: 30\nout a"))
		if n, _ := list.Count(); n < 4 {
			t.Fatalf("%v", list)
		}
	})
}

// A condition may end with a projection on a line of its own; only in a match do
// braces there begin a case.
func TestProjectionsInConditions(t *testing.T) {
	for _, src := range []string{
		"x = branch { a\n{b}\n-> 0, otherwise -> 1 } out x",
		"x = match a { _ -> branch { a\n{b}\n-> 0, otherwise -> 1 }\n{c} -> 2 } out x",
	} {
		if _, list := Parse("x.cst", []byte(src)); list.HasErrors() {
			t.Errorf("%s: %v", src, list)
		}
	}
}

// Durations are those of the rest of bide, whatever option they are in.
func TestDurationsAreThoseOfBide(t *testing.T) {
	for _, text := range []string{"5ms", "30s", "5m", "5min", "1h", "2d", "1w", "1h30m", "1.5s", "10us", "05s"} {
		want, err := duration.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		src := "v = f(x) with timeout: " + text + ", throttle: 3/" + text + ", window: tumbling(" + text + ")\nout v\n"
		f, list := Parse("x.cst", []byte(src))
		if list.HasErrors() {
			t.Errorf("%v", list)
			continue
		}
		with := f.Decls[0].(*AssignDecl).Value.(*CallExpr).With
		for name, got := range map[string]DurationValue{"timeout": *with.Options[0].Value.(*DurationValue), "throttle": with.Options[1].Value.(*RateValue).Per, "window": with.Options[2].Value.(*WindowValue).Size} {
			if got.Value != want || got.Text != text {
				t.Errorf("%s: %s is %v %q", text, name, got.Value, got.Text)
			}
		}
		if got := string(Format(f)); got != src {
			t.Errorf("%q became %q", src, got)
		}
	}
}
