package report

import (
	"maps"
	"os/exec"
	"slices"
	"testing"
)

func TestPrometheusTakesTheRulesAndTheyMapEachContender(t *testing.T) {
	promtool := tool(t, "promtool", "prometheus")
	for _, arguments := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "testdata/rules_test.yml"}} {
		if output, err := exec.CommandContext(t.Context(), promtool, arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, output)
		}
	}
}

func TestEachRuleHasAPanelAndEachPanelARule(t *testing.T) {
	rules, err := expressions()
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, panel := range panels {
		shown = append(shown, panel.Record)
	}
	slices.Sort(shown)
	if recorded := slices.Sorted(maps.Keys(rules)); !slices.Equal(recorded, shown) {
		t.Errorf("the rules record %q\nthe page shows %q", recorded, shown)
	}
}
