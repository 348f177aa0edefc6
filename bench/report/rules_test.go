package report

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/contender"
)

func TestPrometheusTakesTheRulesAndTheyMapEachContender(t *testing.T) {
	promtool, dir := tool(t, "promtool", "prometheus"), t.TempDir()
	rules, err := Rules()
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("testdata/rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"rules.yml": rules, "rules_test.yml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		command := exec.CommandContext(t.Context(), promtool, arguments...)
		command.Dir = dir
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, output)
		}
	}
}

func TestTheSeriesOfAContenderBelongToARule(t *testing.T) {
	rules, err := expressions()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range contender.All() {
		for record, expression := range c.Series {
			if !strings.Contains(rules[record], expression) {
				t.Errorf("%s has an expression for %s, and the rule is %q", c.Name, record, rules[record])
			}
		}
		if c.Look.Light == "" || c.Look.Dark == "" || c.Resync == "" || c.Defaults.Workers == "" || c.Defaults.HeapLimit == "" || c.Defaults.Processors == "" {
			t.Errorf("%s has the look %+v, the resync %q and the settings %+v", c.Name, c.Look, c.Resync, c.Defaults)
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
