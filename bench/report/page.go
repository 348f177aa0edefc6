package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

//go:embed page
var files embed.FS

var page = template.Must(template.ParseFS(files, "page/report.html.tmpl"))

// pageData is the data that the scripts of the page draw.
type pageData struct {
	Tables []Table                   `json:"tables"`
	Panels []panel                   `json:"panels"` // empty without time series
	Groups []group                   `json:"groups"`
	Looks  map[string]contender.Look `json:"looks"`            // by contender
	Series seriesOf                  `json:"series,omitempty"` // the page asks its server for all other series
}

// pageText is the input of the page's template.
type pageText struct {
	Summary           Summary
	Data              pageData
	Prometheus        string // the address of a running Prometheus, or ""
	Without           string // why there are no time series
	UPlotStyle, Style template.CSS
	UPlot, Script     template.JS
}

// dataOf returns the data of a page whose server has the time series.
func dataOf(summary Summary, rounds []rundir.Round) pageData {
	looks := map[string]contender.Look{}
	for _, round := range rounds {
		looks[round.Contender] = contender.Facts(round.Contender).Look
	}
	return pageData{Tables: summary.Tables, Panels: panels, Groups: groupsOf(summary.Run, rounds), Looks: looks}
}

// write writes the page as one self-contained file.
func (p pageText) write(out io.Writer) error {
	text := func(name string) string {
		content, err := files.ReadFile("page/" + name)
		if err != nil {
			panic("report: " + name + " is not embedded: " + err.Error())
		}
		return string(content)
	}
	// These files are part of the program and contain nothing from a run, so they need no escaping.
	p.UPlotStyle, p.Style = template.CSS(text("uplot/uPlot.min.css")), template.CSS(text("report.css"))
	p.UPlot, p.Script = template.JS(text("uplot/uPlot.iife.min.js")), template.JS(text("report.js"))
	if err := page.Execute(out, p); err != nil {
		return fmt.Errorf("write the report as HTML: %w", err)
	}
	return nil
}
