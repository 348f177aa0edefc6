package beside

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhatCannotRunIsRefusedWithAWayOut(t *testing.T) {
	good := Options{Peer: "quarkus", Objects: 20, Every: time.Second}
	if _, err := good.validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Options){
		`there is no contender "pegasus"; there are bellerophon`:                       func(o *Options) { o.Peer = "pegasus" },
		"kube-rs cannot be restricted to one namespace; these can: quarkus, quarkus-c": func(o *Options) { o.Peer = "kube-rs" },
		"bellerophon cannot be restricted to one namespace; these can":                 func(o *Options) { o.Peer = "bellerophon" },
		"--objects is 0; allowed is 1 to 1000":                                         func(o *Options) { o.Objects = 0 },
		"--every is 1ms; allowed is 10ms to 1m":                                        func(o *Options) { o.Every = time.Millisecond },
		"--for is 1ms; allowed is 1s to 24h, or 0":                                     func(o *Options) { o.For = time.Millisecond },
	} {
		options := good
		change(&options)
		if _, err := options.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: the error is %v, want %s", options, err, want)
		}
	}
}

func TestATimeIsFromTheWriteToTheStatusThatIsReadyForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &side{wanted: map[string]want{"shero-1": {1, time.Now(), true}}, ready: map[string]bool{}}
		hero := func(generation, observed int64, ready metav1.ConditionStatus) *v1.BellerophonSimple {
			return &v1.BellerophonSimple{
				ObjectMeta: metav1.ObjectMeta{Name: "shero-1", Generation: generation},
				Status:     v1.BellerophonSimpleStatus{ObservedGeneration: observed, Conditions: []metav1.Condition{{Type: v1.ConditionReady, Status: ready}}},
			}
		}
		<-time.After(time.Second)
		s.see(hero(1, 1, metav1.ConditionFalse))
		<-time.After(time.Second)
		s.see(hero(1, 1, metav1.ConditionTrue))
		s.see(hero(1, 1, metav1.ConditionTrue)) // It counts once.
		s.wanted["shero-1"] = want{2, time.Now(), false}
		s.see(hero(1, 1, metav1.ConditionTrue)) // That is the state before the change.
		<-time.After(3 * time.Second)
		s.see(hero(2, 1, metav1.ConditionTrue)) // So is this status.
		s.see(hero(2, 2, metav1.ConditionTrue))
		if len(s.created) != 1 || s.created[0] != 2 || len(s.changed) != 1 || s.changed[0] != 3 {
			t.Errorf("created after %v, changed after %v", s.created, s.changed)
		}
	})
}
