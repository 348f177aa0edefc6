package report

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"os"

	"github.com/bellerophon-io/bellerophon/bench/outcome"
)

//go:embed page
var files embed.FS

var page = template.Must(template.ParseFS(files, "page/report.html.tmpl"))

// pageData is what the scripts of the page draw.
type pageData struct {
	Tables []Table                      `json:"tables"`
	Panels []panel                      `json:"panels"` // none: there are no time series
	Groups []group                      `json:"groups"`
	Series map[string]map[string][]line `json:"series,omitempty"` // of groups and records; what is not here is asked of the server
}

// pageDataBegins is what the template has before the data.
const pageDataBegins = "<script>const page = "

// pageText is what the page is made of.
type pageText struct {
	Summary           Summary
	Data              pageData
	Prometheus        string // its address, where one runs
	Without           string // why there are no time series
	UPlotStyle, Style template.CSS
	UPlot, Script     template.JS
}

// dataOf is the data of a page whose server has the time series.
func dataOf(summary Summary, rounds []outcome.Round) pageData {
	return pageData{Tables: summary.Tables, Panels: panels, Groups: groupsOf(summary.Run, rounds)}
}

// write writes the page: one file that needs nothing else.
func (p pageText) write(out io.Writer) error {
	text := func(name string) string {
		content, err := files.ReadFile("page/" + name)
		if err != nil {
			panic("report: " + name + " is not embedded: " + err.Error())
		}
		return string(content)
	}
	// These files are ours or of the library, and nothing of a run is in them.
	p.UPlotStyle, p.Style = template.CSS(text("uplot/uPlot.min.css")), template.CSS(text("report.css"))
	p.UPlot, p.Script = template.JS(text("uplot/uPlot.iife.min.js")), template.JS(text("report.js"))
	if err := page.Execute(out, p); err != nil {
		return fmt.Errorf("writing the report as HTML: %w", err)
	}
	return nil
}

// seriesIn are the time series of a page that was written before, nil without any: they
// outlive the data of Prometheus, which is too large to be kept with a report.
func seriesIn(file string) map[string]map[string][]line {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	_, data, _ := bytes.Cut(content, []byte(pageDataBegins))
	var held pageData
	if json.NewDecoder(bytes.NewReader(data)).Decode(&held) != nil || len(held.Series) == 0 {
		return nil
	}
	return held.Series
}
