package io.bellerophon.bench.tutorial;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import io.fabric8.kubernetes.api.model.Condition;
import java.util.List;

/** What was observed. Two that are equal need no write. */
@JsonIgnoreProperties(ignoreUnknown = true)
public record SimpleStatus(
    long observedGeneration, int replicas, int readyReplicas, String selector, List<Condition> conditions) {}
