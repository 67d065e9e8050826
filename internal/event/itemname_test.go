package event

import "testing"

func TestAnItemIsCalledByWhatItIs(t *testing.T) {
	for _, c := range []struct{ id, data, want string }{
		{"widget", `{"id":"widget"}`, "widget"},
		{"12", `13`, "12 (13)"},
		{"13", `13`, "13"},
		{"0", `"a/1.txt"`, "a/1.txt"},
		{"0", `"042"`, "0 (042)"},
		{"0", `""`, `0 ("")`},
		{"0", `" x"`, "0 ( x)"},
		{"3", `{"n":2,"name":"b"}`, "3 (b)"},
		{"3", `{"n":2, "ok":true}`, `3 ({"n":2,"ok":true})`},
		{"3", `{"name":7}`, `3 ({"name":7})`},
		{"3", `["x","y"]`, `3 (["x","y"])`},
		{"3", `null`, "3 (null)"},
		{"0", `"two\nlines"`, "0 (two…)"},
		{"0", `"0123456789012345678901234567890123456789x"`, "0 (0123456789012345678901234567890123456789…)"},
		{"0", ``, "0"},
		{"", `7`, "7"},
		{"", `{"x"`, ""},
	} {
		if got := (Item{Index: 1, ID: c.id, Data: []byte(c.data)}).Name(); got != c.want {
			t.Errorf("%s %s is called %q, want %q", c.id, c.data, got, c.want)
		}
	}
}
