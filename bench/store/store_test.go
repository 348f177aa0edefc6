package store

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func TestBothStoresAreMeasuredInEachTurn(t *testing.T) {
	settings := Settings{Clients: 4, Size: 16, Keys: 10, Phase: time.Second, Turns: 2}
	result, err := measure(t.Context(), settings, screen.New(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, round := range result.Rounds {
		if round.PerSecond <= 0 || round.Median <= 0 || round.P99 < round.Median || round.Max < round.P99 {
			t.Errorf("%+v", round)
		}
		if round.Phase == writes {
			order = append(order, round.Store)
		}
	}
	if got := strings.Join(order, " "); got != "bellerophon etcd etcd bellerophon" {
		t.Errorf("the order is %s", got)
	}
	var out strings.Builder
	if err := result.print(&out); err != nil || !strings.Contains(out.String(), "goal\twrites a second beside etcd\t") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestSettingsOutOfRangeAreRefusedByName(t *testing.T) {
	fine := Settings{Clients: 1, Size: 1, Keys: 1, Phase: time.Second, Turns: 1}
	if err := fine.validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Settings){
		"--clients": func(s *Settings) { s.Clients = 0 },
		"--size":    func(s *Settings) { s.Size = 2 << 20 },
		"--keys":    func(s *Settings) { s.Keys = 0 },
		"--phase":   func(s *Settings) { s.Phase = time.Millisecond },
		"--turns":   func(s *Settings) { s.Turns = 101 },
	} {
		settings := fine
		change(&settings)
		if err := settings.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
