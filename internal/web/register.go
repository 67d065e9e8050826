package web

import (
	"net/http"
)

// site is a page that is not about one run: the one place that names it.
type site struct {
	Path    string
	serve   func(*pages, http.ResponseWriter, *http.Request) error
	body    string             // its template, which is in pages/BODY.html
	Tab     string             // what its link is called
	visible func(*Server) bool // whether there is a link to it; nil: on each page
}

// ofSite gives those pages, the links in their order.
func ofSite() []site {
	return []site{
		{Path: "/", serve: (*pages).runsPage, body: "runs", Tab: "Runs"},
		{Path: "/compare", serve: (*pages).comparePage, body: "compare", Tab: "Compare"},
		{Path: "/machines", serve: (*pages).machinesPage, body: "machines", Tab: "Machines", visible: (*Server).onMachines},
	}
}

// siteLink is the link to such a page.
type siteLink struct {
	site
	On bool
}

// links gives those of a page whose template is body. s is nil for a page that tells strangers
// nothing of what is here.
func links(s *Server, body string) (out []siteLink) {
	for _, p := range ofSite() {
		if p.visible == nil || s != nil && p.visible(s) {
			out = append(out, siteLink{p, p.body == body})
		}
	}
	return out
}

// registered is a page of a run, or the data of one: the one place that names it.
type registered struct {
	Path    string // below /runs/ID
	serve   func(*pages, http.ResponseWriter, *http.Request, *run) error
	body    string              // its template, which is in pages/BODY.html
	Tab     string              // what its tab is called; "" for none
	Key     string              // opens it, after g; "" for none
	under   string              // the path of the tab under which it is, where it has none of its own
	visible func(*runHead) bool // whether a run has the tab; nil: each has
	count   func(*runHead) int  // a number beside the name of the tab; nil: none
	alone   bool                // it is made for each who asks for it: not only the run's state says what is in it
}

// ofRuns gives the pages of a run, the tabs in their order.
func ofRuns() []registered {
	return []registered{
		{Path: "", serve: (*pages).runPage, body: "run", Tab: "Timeline", Key: "t"},
		{Path: "/map", serve: (*pages).mapPage, body: "map", Tab: "Map", Key: "m", visible: hasItems},
		{Path: "/dlq", serve: (*pages).dlqPage, body: "dlq", Tab: "Dead letters", Key: "d", visible: hasItems, count: func(h *runHead) int { return h.Letters }},
		{Path: "/graph", serve: (*pages).graphPage, body: "graph", Tab: "Graph", Key: "w"},
		{Path: "/retries", serve: (*pages).retriesPage, body: "retries", Tab: "Retries"},
		{Path: "/foresight", serve: (*pages).foresightPage, body: "foresight", Tab: "Foresight", alone: true},
		{Path: "/file", serve: (*pages).filePage, body: "file", Tab: "File", Key: "f"},
		{Path: "/step", serve: (*pages).stepPage, body: "step", alone: true},
		{Path: "/items/{number}", serve: (*pages).itemPage, body: "item", under: "/map", alone: true},
		{Path: "/rows", serve: (*pages).rowsData},
		{Path: "/lines", serve: (*pages).lines, alone: true},
		{Path: "/find", serve: (*pages).findLines, alone: true},
		{Path: "/log", serve: (*pages).log, alone: true},
		{Path: "/cells", serve: (*pages).cells},
		{Path: "/series", serve: (*pages).series},
	}
}

func hasItems(h *runHead) bool { return h.Items.Total > 0 }

// tab is a tab of a run's pages.
type tab struct {
	registered
	On    bool
	Count int
}

// tabs gives the tabs of a page of a run, whose template is body.
func tabs(run *runHead, body string) (out []tab) {
	on := "" // the timeline
	for _, p := range ofRuns() {
		if p.body == body && p.Tab != "" {
			on = p.Path
		} else if p.body == body {
			on = p.under
		}
	}
	for _, p := range ofRuns() {
		if p.Tab == "" || p.visible != nil && !p.visible(run) {
			continue
		}
		t := tab{registered: p, On: p.Path == on}
		if p.count != nil {
			t.Count = p.count(run)
		}
		out = append(out, t)
	}
	return out
}

// register serves the pages.
func (p *pages) register(mux *http.ServeMux) {
	for _, of := range ofSite() {
		path := of.Path
		if path == "/" {
			path = "/{$}" // else it would be every path
		}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { p.problem(w, r, of.serve(p, w, r)) })
	}
	for _, of := range ofRuns() {
		serve := func(w http.ResponseWriter, r *http.Request, run *run) error { return of.serve(p, w, r, run) }
		if !of.alone {
			serve = p.share(serve)
		}
		mux.HandleFunc("GET /runs/{run}"+of.Path, p.ofRun(serve))
	}
}
