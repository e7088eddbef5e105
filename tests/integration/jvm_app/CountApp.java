import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;

/** A JVM application for `--class`: counts and sums squares mod 1000 of 0..n-1, and checks both. Arguments: n, tasks, rounds. */
public final class CountApp {
    private CountApp() {}

    public static void main(String[] arguments) {
        int n = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 100_000;
        int tasks = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 8;
        int rounds = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 1;
        List<Integer> numbers = new ArrayList<>(n);
        long expected = 0;
        for (int i = 0; i < n; i++) {
            numbers.add(i);
            expected += value(i);
        }
        boolean ok = true;
        long sum = 0;
        try (JavaSparkContext sc = new JavaSparkContext(new SparkConf().setAppName("count-app"))) {
            JavaRDD<Integer> all = sc.parallelize(numbers, tasks);
            for (int round = 0; round < rounds; round++) {
                long count = all.count();
                sum = all.map(CountApp::value).reduce(Long::sum);
                ok = ok && count == n && sum == expected;
            }
        }
        System.out.println("{\"answer\": " + sum + ", \"ok\": " + ok + "}");
        if (!ok) {
            System.exit(1);
        }
    }

    private static long value(int i) {
        return (long) i * i % 1000;
    }
}
