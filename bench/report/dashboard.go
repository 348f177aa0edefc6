package report

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/rundir"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// DashboardFile is the name of the dashboard of a run for Grafana.
const DashboardFile = "dashboard.json"

// query returns the expression of a panel for a Prometheus with the data of a run, or with the series that
// it keeps. Kept series have more labels.
func (p panel) query(contender string) string {
	return fmt.Sprintf("max by (contender) (%s{contender=~%q})", p.Record, contender)
}

// grafanaUnits maps each unit to its name in Grafana.
var grafanaUnits = map[unit]string{inSeconds: "s", inBytes: "bytes", plainNumber: "short"}

// writeDashboard writes the panels of a page as a dashboard for Grafana. It shows the first turn, and links to
// one turn of each scenario and setting.
func writeDashboard(out io.Writer, run rundir.Run, of pageData) error {
	source := common.DataSourceRef{Type: new("prometheus"), Uid: new("${source}")}
	uid := "bench-" + run.Started.UTC().Format("20060102-150405")
	//nolint:staticcheck // Grafana before version 12 does not import the newer schema.
	board := dashboard.NewDashboardBuilder("Comparison of operators, " + run.Started.UTC().Format(time.DateTime)).Uid(uid).Timezone("utc").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("source").Label("data source").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder("contender").Datasource(source).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
			Query(dashboard.StringOrMap{String: new("label_values(contender)")}).Multi(true).IncludeAll(true).AllValue(".*").
			Current(dashboard.VariableOption{Text: dashboard.StringOrArrayOfString{String: new("All")}, Value: dashboard.StringOrArrayOfString{String: new("$__all")}}))
	for i, group := range fullest(of.Groups) {
		from, to := group.span()
		if i == 0 {
			board.Time(from.Format(time.RFC3339), to.Format(time.RFC3339))
		}
		board.Link(dashboard.NewDashboardLinkBuilder(group.Key).Type(dashboard.DashboardLinkTypeLink).Icon("clock-nine").IncludeVars(true).
			Url(fmt.Sprintf("/d/%s?from=%d&to=%d", uid, from.UnixMilli(), to.UnixMilli())))
	}
	for _, panel := range of.Panels {
		board.WithPanel(timeseries.NewPanelBuilder().Title(panel.Title).Datasource(source).Span(12).Height(8).
			Unit(grafanaUnits[panel.Unit]).Min(0).Interval("1s").
			Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
			Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
			WithTarget(prometheus.NewDataqueryBuilder().Expr(panel.query("$contender")).LegendFormat("{{contender}}").Range().RefId("A")))
	}
	built, err := board.Build()
	if err != nil {
		return fmt.Errorf("make the dashboard: %w", err)
	}
	for i := range built.Links {
		built.Links[i].Placement = nil // Above the panels. The builder hides links in a menu.
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(built); err != nil {
		return fmt.Errorf("write the dashboard: %w", err)
	}
	return nil
}

// span returns the time from the first start of a round to the last end.
func (g group) span() (from, to time.Time) {
	from, to = g.rounds[0].Start, g.rounds[0].End
	for _, round := range g.rounds[1:] {
		if round.Start.Before(from) {
			from = round.Start
		}
		if round.End.After(to) {
			to = round.End
		}
	}
	return from.UTC().Truncate(time.Second), to.UTC().Truncate(time.Second).Add(time.Second)
}

// graphed bounds the panels in Prometheus' own page. Debian's version sorts parameters as text, so that the graph
// g10 breaks those after g1.
const graphed = 10

// graphs returns the query of Prometheus' own page that shows the first panels at the time of the first group. Some
// versions of that page drop the seconds of the end.
func graphs(groups []group) string {
	if len(groups) == 0 {
		return ""
	}
	from, to := groups[0].span()
	to = to.Add(time.Minute - time.Second).Truncate(time.Minute)
	var shown []string
	for i, panel := range panels[:graphed] {
		for _, parameter := range [][2]string{
			{"expr", panel.query(".*")}, {"tab", "0"}, {"range_input", strconv.Itoa(int(to.Sub(from).Seconds())) + "s"}, {"end_input", to.Format(time.DateTime)},
		} {
			shown = append(shown, fmt.Sprintf("g%d.%s=%s", i, parameter[0], url.QueryEscape(parameter[1])))
		}
	}
	return strings.Join(shown, "&")
}
