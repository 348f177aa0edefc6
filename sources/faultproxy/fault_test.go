package faultproxy_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	"k8s.io/client-go/rest"
)

const configMaps = "/api/v1/namespaces/a/configmaps"

// counting serves a constant answer and counts its requests.
func counting(served chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		served <- r.Method
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "0123456789")
	}
}

func TestWithoutFaultsRequestsPassUnchangedOverHTTP2(t *testing.T) {
	type seen struct{ method, path, query, body, authorization, accept, proto string }
	requests := make(chan seen, 1)
	proxy, client := in(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- seen{r.Method, r.URL.Path, r.URL.RawQuery, string(body), r.Header.Get("Authorization"), r.Header.Get("Accept"), r.Proto}
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "made")
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, client.config.Host+configMaps+"?fieldManager=me", strings.NewReader("a body"))
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+client.config.BearerToken)
	request.Header.Set("Accept", "application/json")
	answer, err := client.transport.RoundTrip(request)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	if want := (seen{"POST", configMaps, "fieldManager=me", "a body", "", "application/json", "HTTP/2.0"}); <-requests != want {
		t.Errorf("the server did not get %v", want)
	}
	if answer.StatusCode != http.StatusCreated || string(body) != "made" || answer.Header.Get("X-Answer") != "yes" || answer.Proto != "HTTP/2.0" {
		t.Errorf("the client got %v %v %q", answer.Proto, answer, body)
	}
	if counts := proxy.Counts(); counts.Requests["create configmaps"] != 1 || len(counts.Faults) != 0 || counts.Connections != 1 {
		t.Errorf("counted %v", counts)
	}
}

func TestARequestWithoutTheTokenIsRefused(t *testing.T) {
	_, client := in(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was forwarded") })
	client.config.BearerToken = "another"
	answer, _, err := client.read(http.MethodGet, configMaps)
	must(t, err)
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the answer is %s", answer.Status)
	}
}

func TestEachFaultOfARequest(t *testing.T) {
	for name, test := range map[string]struct {
		fault    faultproxy.Fault
		code     int // 0 if no answer comes
		header   string
		body     string
		failed   bool // while the body is read
		isServed bool
	}{
		"refuse":              {faultproxy.Fault{Action: faultproxy.Refuse}, 503, "", "refused by the test", false, false},
		"refuse with a time":  {faultproxy.Fault{Action: faultproxy.Refuse, Code: 429, RetryAfter: 3 * time.Second}, 429, "3", "TooManyRequests", false, false},
		"refuse as expired":   {faultproxy.Fault{Action: faultproxy.Refuse, Code: 410}, 410, "", "Expired", false, false},
		"answer":              {faultproxy.Fault{Action: faultproxy.Answer, Body: "<html>", ContentType: "text/html"}, 200, "", "<html>", false, false},
		"disconnect":          {faultproxy.Fault{Action: faultproxy.Disconnect}, 0, "", "", false, false},
		"slow":                {faultproxy.Fault{Action: faultproxy.Slow, For: time.Millisecond}, 200, "", "0123456789", false, true},
		"lose the answer":     {faultproxy.Fault{Action: faultproxy.LoseAnswer}, 0, "", "", false, true},
		"cut":                 {faultproxy.Fault{Action: faultproxy.Cut, Bytes: 4}, 200, "", "0123", true, true},
		"cut before the body": {faultproxy.Fault{Action: faultproxy.Cut}, 0, "", "", false, true},
		"go away":             {faultproxy.Fault{Action: faultproxy.GoAway}, 200, "", "0123456789", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			served := make(chan string, 10)
			proxy, client := in(t, counting(served))
			test.fault.Match = faultproxy.Match{Verb: "delete", Resource: "configmaps", Namespace: "a", Name: "x"}
			must(t, proxy.Inject(test.fault))
			for _, path := range []string{configMaps + "/y", "/api/v1/namespaces/b/configmaps/x", "/api/v1/namespaces/a/secrets/x"} {
				if _, body, err := client.read(http.MethodDelete, path); err != nil || body != "0123456789" {
					t.Errorf("the fault does not match %s, which got: %q, %v", path, body, err)
				}
				<-served
			}
			answer, body, err := client.read(http.MethodDelete, configMaps+"/x")
			switch {
			case test.code == 0:
				if err == nil {
					t.Errorf("the answer is %s", answer.Status)
				}
			case answer == nil || answer.StatusCode != test.code || answer.Header.Get("Retry-After") != test.header || (err != nil) != test.failed:
				t.Errorf("the answer is %v, and the error is %v", answer, err)
			case test.failed && body != test.body || !strings.Contains(body, test.body):
				t.Errorf("the body is %q, want %q", body, test.body)
			}
			if got := len(served) == 1; got != test.isServed {
				t.Errorf("the request reached the server: %t, want %t", got, test.isServed)
			}
			if got := proxy.Counts().Faults[test.fault.Action]; got != 1 {
				t.Errorf("the fault applied %d times, want 1", got)
			}
			if _, body, err := client.read(http.MethodDelete, configMaps+"/x"); err != nil || body != "0123456789" {
				t.Errorf("the request after it: %q, %v", body, err)
			}
		})
	}
}

func TestAHungRequestIsNotPassedOnAndEndsWithItsClient(t *testing.T) {
	served := make(chan string, 10)
	proxy, client := in(t, counting(served))
	must(t, proxy.Inject(faultproxy.Fault{Action: faultproxy.Hang, Times: faultproxy.Always}))
	hangs(t, func(ctx context.Context) error { _, err := client.do(ctx, http.MethodGet, configMaps); return err })
	proxy.Heal()
	if _, _, err := client.read(http.MethodGet, configMaps); err != nil || len(served) != 1 {
		t.Errorf("after Heal: %v, %d requests reached the server", err, len(served))
	}
}

func TestTheNthMatchIsStruckAndSoManyTimes(t *testing.T) {
	proxy, client := in(t, counting(make(chan string, 10)))
	must(t, proxy.Inject(
		faultproxy.Fault{Action: faultproxy.Refuse, Match: faultproxy.Match{Verb: "list"}, Nth: 2, Times: 2},
		faultproxy.Fault{Action: faultproxy.Refuse, Code: 500, Nth: 3, Times: faultproxy.Always},
	))
	var codes []int
	for range 6 {
		answer, _, err := client.read(http.MethodGet, configMaps)
		must(t, err)
		codes = append(codes, answer.StatusCode)
	}
	for i, want := range []int{200, 503, 503, 500, 500, 500} {
		if codes[i] != want {
			t.Fatalf("the answers are %v, want %d at index %d", codes, want, i)
		}
	}
}

func TestFaultsThatMakeNoSenseAreRefusedByName(t *testing.T) {
	proxy, client := in(t, counting(make(chan string, 10)))
	for want, fault := range map[string]faultproxy.Fault{
		"fault 2: Action(0): Action is unknown":       {},
		`Verb is "put"; allowed is one of`:            {Action: faultproxy.Hang, Match: faultproxy.Match{Verb: "put"}},
		"Nth is -1":                                   {Action: faultproxy.Hang, Nth: -1},
		"Times is -2":                                 {Action: faultproxy.Hang, Times: -2},
		"Slow: For is 0s":                             {Action: faultproxy.Slow},
		"Hang: For is 1s":                             {Action: faultproxy.Hang, For: time.Second},
		"Bytes is 1; allowed is 0 and above, for Cut": {Action: faultproxy.Hang, Bytes: 1},
		"Hang: Code and RetryAfter are allowed for Refuse only": {Action: faultproxy.Hang, Code: 500},
		"Code is 200; allowed is 400 to 599":                    {Action: faultproxy.Refuse, Code: 200},
		"RetryAfter is 1ms; allowed are whole seconds":          {Action: faultproxy.Refuse, RetryAfter: time.Millisecond},
		"Cut: Body and ContentType are allowed for Answer only": {Action: faultproxy.Cut, Body: "x"},
	} {
		if err := proxy.Inject(faultproxy.Fault{Action: faultproxy.Hang}, fault); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Inject returned %v, want %q in it", err, want)
		}
	}
	if _, _, err := client.read(http.MethodGet, configMaps); err != nil { // A rejected list adds none of its faults.
		t.Error(err)
	}
}

func TestATokenThatWasRotatedIsRefused(t *testing.T) {
	proxy, client := in(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") })
	proxy.Rotate()
	if answer, body, err := client.read(http.MethodGet, "/api/v1/nodes"); err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("with the old token: %v, %q, %v", answer, body, err)
	}
	client.config = proxy.Config()
	if answer, body, err := client.read(http.MethodGet, "/api/v1/nodes"); err != nil || answer.StatusCode != http.StatusOK || body != "yes" {
		t.Errorf("with the new token: %v, %q, %v", answer, body, err)
	}
}

func TestAnExpiredCertificateEndsNewConnectionsUntilItIsRenewed(t *testing.T) {
	proxy, client := in(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") })
	must(t, proxy.Renew(-time.Minute))
	if _, _, err := client.read(http.MethodGet, configMaps); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("with an expired certificate: %v", err)
	}
	must(t, proxy.Renew(time.Hour))
	if _, body, err := client.read(http.MethodGet, configMaps); err != nil || body != "yes" {
		t.Errorf("with a new certificate: %q, %v", body, err)
	}
}

func TestACertificateOfAClientIsRefusedOnceItHasExpired(t *testing.T) {
	proxy, client := in(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") })
	for validity, want := range map[time.Duration]int{time.Hour: http.StatusOK, -time.Minute: http.StatusUnauthorized} {
		config := proxy.Config()
		certificate, key, err := proxy.ClientCertificate(validity)
		must(t, err)
		config.BearerToken, config.CertData, config.KeyData = "", certificate, key
		security, err := rest.TLSConfigFor(config)
		must(t, err)
		client.transport.CloseIdleConnections()
		client.config, client.transport = config, &http.Transport{TLSClientConfig: security, ForceAttemptHTTP2: true}
		if answer, _, err := client.read(http.MethodGet, configMaps); err != nil || answer.StatusCode != want {
			t.Errorf("with a certificate for %v: %v, %v", validity, answer, err)
		}
	}
}
