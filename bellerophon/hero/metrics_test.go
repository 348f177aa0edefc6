package hero

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/golden"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTheStateOfHeroesIsInTheMetrics(t *testing.T) {
	w := newWorld(t)
	w.create(heroName, map[string]any{"replicas": int64(1), "backup": map[string]any{"volumeClaimName": "backups"}})
	w.ready()
	const want = `
# HELP bellerophon_hero_backup_timestamp_seconds When the last backup was completed, in seconds since 1970; 0 if there is none.
# TYPE bellerophon_hero_backup_timestamp_seconds gauge
bellerophon_hero_backup_timestamp_seconds{HERO} 0
# HELP bellerophon_hero_condition 1 if a condition is True, 0 otherwise: Available, Degraded, Progressing or Ready.
# TYPE bellerophon_hero_condition gauge
bellerophon_hero_condition{condition="Available",HERO} 1
bellerophon_hero_condition{condition="Degraded",HERO} 0
bellerophon_hero_condition{condition="Progressing",HERO} 0
bellerophon_hero_condition{condition="Ready",HERO} 1
# HELP bellerophon_hero_desired_members Members that the spec asks for.
# TYPE bellerophon_hero_desired_members gauge
bellerophon_hero_desired_members{HERO} 1
# HELP bellerophon_hero_member_lag_entries Entries that a member has yet to apply; 0 if they are fewer than 100.
# TYPE bellerophon_hero_member_lag_entries gauge
bellerophon_hero_member_lag_entries{HERO,member="bellerophon-0"} 0
# HELP bellerophon_hero_ready_members Members that are ready.
# TYPE bellerophon_hero_ready_members gauge
bellerophon_hero_ready_members{HERO} 1
`
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "heroes.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(want) {
		if name, is := strings.CutPrefix(line, "# TYPE "); is {
			name, _, _ = strings.Cut(name, " ")
			names = append(names, name)
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/heroes.md lacks %s", name)
			}
		}
	}
	labels := `hero="bellerophon",hero_namespace="` + w.namespace + `"`
	// The cache may be behind the API server.
	w.eventually("the series are as the hero", func() error {
		return testutil.GatherAndCompare(w.registry, strings.NewReader(strings.ReplaceAll(want, "HERO", labels)), names...)
	})
}

var (
	describedName   = regexp.MustCompile(`fqName: "(\w+)"`)
	describedLabels = regexp.MustCompile(`variableLabels: \{([\w,]*)\}`)
)

// The metrics of heroes are gauges, all of them: see heroMetrics.Collect.
func TestTheMetricsOfHeroesAreThoseOfTheDocuments(t *testing.T) {
	described := make(chan *prometheus.Desc, 100)
	heroMetrics{}.Describe(described)
	close(described)
	var names []string
	for description := range described {
		name := describedName.FindStringSubmatch(description.String())
		labels := describedLabels.FindStringSubmatch(description.String())
		if name == nil || labels == nil {
			t.Fatalf("a description has another format: %s", description)
		}
		sorted := strings.Split(labels[1], ",")
		slices.Sort(sorted)
		names = append(names, fmt.Sprintf("%s\tgauge %s", name[1], sorted))
	}
	golden.Names(t, filepath.Join("..", "..", "docs", "names", "metrics-heroes.txt"), names)
}
