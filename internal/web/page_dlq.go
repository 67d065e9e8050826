package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/value"
)

type dlqBody struct {
	Run      string
	Groups   []groupLine
	Classes  []classCount
	Class    string // the filter
	Group    string
	Chosen   *groupLine
	All      int
	Fit      int
	From     int
	Letters  []itemLine
	Next     string
	Previous string
	CanRetry bool
}

type groupLine struct {
	group
	Share string
	On    bool
	Href  string
}

// editing is an item that is being edited.
type editing struct {
	Run     string
	Index   int
	ID      string
	Called  string
	Name    string
	Data    string
	Diff    []diffLine
	Problem string
}

func (p *pages) dlqPage(w http.ResponseWriter, r *http.Request, run *run) error {
	q := r.URL.Query()
	b := dlqBody{Run: run.id, Class: q.Get("class"), Group: q.Get("group"), From: numberOf(r, "from", 0), CanRetry: !p.opt.ReadOnly}
	var indexes []int
	head, err := p.headOf(r, run, func() {
		indexes = b.fill(&run.items)
	})
	if err != nil {
		return err
	}
	if b.Letters, err = p.itemLines(r, run, indexes); err != nil {
		return err
	}
	b.Next, b.Previous = turn(r, b.From, len(b.Letters), b.Fit)
	return p.show(w, "dlq", frame{Title: "Dead letters of " + head.Name, Run: head, Live: "run", Body: b})
}

// fill takes what the fold says and gives the letters of the page; run.mu is
// held.
func (b *dlqBody) fill(t *items) []int {
	b.All = len(t.letters)
	classes := map[string]int{}
	for _, g := range t.groups {
		if g.Count == 0 {
			continue
		}
		classes[g.Class] += g.Count
		if b.Class != "" && g.Class != b.Class {
			continue
		}
		line := groupLine{group: *g, Share: percent(float64(g.Count) / float64(max(1, b.All))), On: b.Group == g.ID}
		v := url.Values{}
		if b.Class != "" {
			v.Set("class", b.Class)
		}
		if !line.On {
			v.Set("group", g.ID)
		}
		line.Href = "?" + v.Encode()
		if b.Groups = append(b.Groups, line); line.On {
			b.Chosen = &line
		}
	}
	for c, n := range classes {
		b.Classes = append(b.Classes, classCount{c, n})
	}
	slices.SortFunc(b.Classes, func(x, y classCount) int { return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Class, y.Class)) })
	slices.SortFunc(b.Groups, func(x, y groupLine) int { return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.ID, y.ID)) })
	var fit []int
	for index, l := range t.letters {
		if (b.Group == "" || l.group.ID == b.Group) && (b.Class == "" || l.group.Class == b.Class) {
			fit = append(fit, index)
		}
	}
	b.Fit = len(fit)
	slices.Sort(fit)
	from := min(b.From, len(fit))
	return fit[from:min(from+perPage, len(fit))]
}

// validJSON says what is wrong with a text that has to be JSON; "" for nothing.
func validJSON(text string) string {
	if _, err := value.Parse([]byte(text)); err != nil {
		return "This is no JSON: " + err.Error() + "."
	}
	return ""
}

// tooLarge says how an item is edited that a browser would not send.
func tooLarge(run, id string) error {
	return &status{http.StatusRequestEntityTooLarge, "The item is larger than " + diag.Bytes(maxEdit) + ".", "Edit it in a file: bide dlq retry " + run + " --item " + id + " --data FILE"}
}

// review shows what an edit of an item changes, before it is run again with it.
func (p *pages) review(w http.ResponseWriter, r *http.Request, run *run) error {
	index, err := strconv.Atoi(r.PostForm.Get("index"))
	if err != nil {
		return &status{http.StatusBadRequest, "The form names no item.", "Edit an item on its own page."}
	}
	item := itemBody{Run: run.id, Index: index}
	if err := p.fillItem(r, run, &item); err != nil {
		return err
	}
	if item.Letter == nil {
		return &status{http.StatusConflict, "Item " + item.Called + " is no dead letter any more.", "Its page says what became of it."}
	}
	e := editing{Run: run.id, Index: index, ID: item.ID, Called: item.Called, Name: item.Name, Data: string(item.Data)}
	if _, edited := r.PostForm["data"]; edited {
		e.Data = strings.ReplaceAll(r.PostForm.Get("data"), "\r\n", "\n")
		if e.Problem = validJSON(e.Data); e.Problem == "" {
			e.Diff = lineDiff(string(item.Data), string(indented([]byte(e.Data))))
		}
	}
	if len(e.Data) > maxEdit {
		return tooLarge(run.id, item.ID)
	}
	return p.show(w, "edit", frame{Title: "Edit item " + strconv.Itoa(event.Number(index)), Body: e})
}
